"""Parts of ``benchmarks/train_embedder.py``."""
