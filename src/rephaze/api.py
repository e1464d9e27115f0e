"""The public functions, each a few lines over the rooms."""
