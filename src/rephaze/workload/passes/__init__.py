"""Passes over model graphs that need no torch: tensor-parallel degree, fusion."""
