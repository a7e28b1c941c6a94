"""Tile stores on disk: written page by page, edited, merged, checked, and exchanged with other layouts."""
