"""Recorded runs tampered with, column by column, and what of ``verify`` tells it."""
