"""Time and energy of operators on chips."""
