"""Measured training runs: what the physics predicts of them, and how far off it is."""
