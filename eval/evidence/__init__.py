"""Evidence from a page's HTML in place of the reader's last item: tree, table grid, units, packing, delivery."""
