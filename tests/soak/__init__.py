"""Searches disturbed in every way a machine has, held against undisturbed ones."""
