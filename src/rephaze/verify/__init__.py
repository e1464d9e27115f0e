"""A recorded run derived again, slowly and independently."""
