"""The work of a loader process, and how what it makes travels: small arrays as bytes, patches in a memory file.

The memory is anonymous: it vanishes with the last process that holds it, also after a kill.
"""

import contextlib
import dataclasses
import mmap
import os
import pickle
import traceback
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import torch
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.train.batch import Batch
from tilewright.train.step_inputs import TileInputs

_TENSORS = ("input_ids", "attention_mask", "position_ids", "pooled", "grids")


def serve(own: Connection) -> None:
    """Take a ``TileInputs``, then make pieces until the socket ends.

    Any error but an InputError is raised, for the process to end with its traceback.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        tiles: TileInputs = pickle.loads(own.recv_bytes())
        while True:
            piece = pickle.loads(own.recv_bytes())
            try:
                batches = tiles.make(piece)
            except InputError as error:
                error.add_note(traceback.format_exc())
                own.send_bytes(pickle.dumps(error))
                continue
            send_batches(own, batches)


def send_batches(own: Connection, batches: list[Batch]) -> None:
    """Everything but patches as bytes, their shapes, then a memory file of all patches if there are any."""
    shapes = [None if batch.patches is None else tuple(batch.patches.shape) for batch in batches]
    own.send_bytes(pickle.dumps(([_to_plain(batch) for batch in batches], shapes)))
    patches = [batch.patches for batch in batches if batch.patches is not None]
    if not patches:
        return
    file = os.memfd_create("patches")
    try:
        size = sum(part.nbytes for part in patches)
        os.truncate(file, size)
        with mmap.mmap(file, size) as memory:
            start = 0
            for part in patches:
                memory[start : start + part.nbytes] = part.contiguous().numpy().data.cast("B")
                start += part.nbytes
        send_handle(own, file, None)
    finally:
        os.close(file)


def received_batches(own: Connection) -> list[Batch]:
    """What ``send_batches`` sent at the other end, or the InputError sent instead, raised."""
    answer = pickle.loads(own.recv_bytes())
    if isinstance(answer, InputError):
        raise answer
    plain, shapes = answer
    patches = _received_patches(own, shapes)
    return [_to_batch(values, part) for values, part in zip(plain, patches, strict=True)]


def _received_patches(own: Connection, shapes: list[tuple[int, int] | None]) -> list[Tensor | None]:
    """The patches of each batch, in memory that the sending process has written."""
    sizes = [0 if shape is None else shape[0] * shape[1] for shape in shapes]
    if not sum(sizes):
        return [None] * len(shapes)
    file = recv_handle(own)
    try:
        memory = torch.frombuffer(mmap.mmap(file, sum(sizes)), dtype=torch.uint8)  # keeps the mapping
    finally:
        os.close(file)
    parts = torch.split(memory, sizes)
    return [None if shape is None else part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def _to_plain(batch: Batch) -> dict[str, Any]:
    """All but patches, as numpy arrays: tensors pickle slowly, or through shared memory that outlives a kill."""
    values = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    arrays = {name: None if values[name] is None else values[name].numpy() for name in _TENSORS}
    return values | arrays | {"patches": None}


def _to_batch(values: dict[str, Any], patches: Tensor | None) -> Batch:
    tensors = {name: None if values[name] is None else torch.from_numpy(values[name]) for name in _TENSORS}
    return Batch(**(values | tensors | {"patches": patches}))
