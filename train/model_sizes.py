"""What the encoder needs to know of a model before its weights are read."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelSizes:
    """Width of the hidden state, size of the vocabulary, the image token, and how pixels become visual tokens."""

    hidden: int
    vocabulary: int
    image_token_id: int
    patch_size: int
    merge_size: int
    temporal_patch_size: int
