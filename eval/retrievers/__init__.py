"""Retrievers: what finds items for questions."""
