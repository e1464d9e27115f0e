"""Passes over model graphs that need no torch: cuts over the chips of a replica, fusion."""
