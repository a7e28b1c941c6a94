"""Tilewright: train and evaluate visual embedders and low-resolution readers over screenshot tiles."""

__version__ = "0.1.0"
