"""SPIRE (arXiv 2604.20849): sentences by their paths in a page's tree, with the context they need, as citations."""
