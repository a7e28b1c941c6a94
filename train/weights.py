"""A digest of weights on disk that doesn't depend on how they are spread over files."""

import hashlib
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from tilewright.configs.errors import InputError


def weights_digest(folder: Path) -> str:
    """SHA-256 over name, type, shape and bytes of every tensor in the folder's safetensors files.

    It doesn't depend on how tensors are spread over files. Raises InputError if there are none.
    """
    files = sorted(folder.glob("*.safetensors"))
    places: dict[str, Path] = {}
    for file in files:
        with _open(file) as tensors:
            places |= dict.fromkeys(tensors.keys(), file)
    if not places:
        raise InputError(f"{folder}: no weights: wanted *.safetensors files")
    digest = hashlib.sha256()
    for name in sorted(places):
        with _open(places[name]) as tensors:
            tensor = tensors.get_tensor(name)
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except Exception as error:
        raise InputError(f"{path}: not a readable safetensors file: {error}") from error
