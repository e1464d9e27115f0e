"""Chips, design spaces, area, energy and cost."""
