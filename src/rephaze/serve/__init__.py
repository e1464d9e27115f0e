"""Runs of a folder in a browser: list, compare, start a search, watch it, stop it. Needs the extra ``[serve]``."""
