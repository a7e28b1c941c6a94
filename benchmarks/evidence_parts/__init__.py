"""Parts of the benchmarks of evidence."""
