"""Parts of ``benchmarks/nano.py``."""
