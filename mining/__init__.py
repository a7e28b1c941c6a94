"""Checkpoint and tiles to an index, hard negatives and reader data."""
