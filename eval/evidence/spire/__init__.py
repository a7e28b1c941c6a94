"""SPIRE (arXiv 2604.20849): sentences by their paths in the page's tree, with the context that they need, as citations."""
