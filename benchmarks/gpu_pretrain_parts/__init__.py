"""Parts of gpu_pretrain_nano.py: pages composed on a device from a glyph atlas, with what stands in each cell."""
