"""Checkpoint to index to Recall@k, accuracy and a report."""
