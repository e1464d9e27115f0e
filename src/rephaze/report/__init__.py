"""Stored records to pages and pictures."""
