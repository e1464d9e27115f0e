"""Passes over model graphs that need no torch: sharding at a tensor-parallel degree, fusion."""
