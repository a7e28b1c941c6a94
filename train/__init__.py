"""Examples to checkpoints: the encoder, its losses and its training loops."""
