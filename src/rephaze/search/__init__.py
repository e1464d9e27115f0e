"""Chip and placement together: the only room that joins the others."""
