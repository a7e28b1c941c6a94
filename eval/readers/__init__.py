"""Readers: what answers questions from items."""
