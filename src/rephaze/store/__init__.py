"""Records to and from the run store."""
