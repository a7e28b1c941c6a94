"""Blocks of tiles to vectors by a pool of Ray actors (``pip install tilewright[ray]``), on one machine or many.

Every machine has the package, and the checkpoint and the tiles under the same paths (a shared folder, or a copy); the
vectors come back to the process that was started, which alone writes. On two machines:

    ray start --head --port=6379                                                        # on the first
    ray start --address=FIRST:6379                                                      # on the second
    RAY_ADDRESS=FIRST:6379 tilewright embed_tiles CONFIG.yaml engine=ray ray.actors=16 ray.gpus=1     # on the first

Where Ray asks for a token (as it does from 2.60 on), both have the same ``~/.ray/auth_token``.

An actor that dies is started again and its block embedded again; blocks that have come back are kept over a restart of
everything. Blocks are those of a run without Ray, so the vectors are too, byte for byte on machines of one kind.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError, UserError
from tilewright.configs.stage import StageError
from tilewright.data_gen.tile_store import TileStore
from tilewright.mining.embed_blocks import embed_blocks
from tilewright.mining.embed_plan import Block
from tilewright.mining.index_arrays import Array
from tilewright.train.distributed import choose_device
from tilewright.train.encoder import load_encoder

_SCHEMA = pa.schema([("number", pa.int64()), ("vectors", pa.large_binary()), ("error", pa.string())])
_TASKS = 10_000  # what Ray's scheduler handles well; a task is embedded again if its actor dies


@dataclass(frozen=True)
class RaySettings:
    """``actors``, each with an encoder of its own on ``cpus`` cores and ``gpus`` GPUs."""

    actors: int = 2
    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "actors")
        check_bounds(self, 0, None, "cpus", "gpus")


@dataclass(frozen=True)
class ActorTask:
    """What an actor is made from; the fields of embed_tiles' Config of the same names."""

    checkpoint: Path
    tiles: Path
    device: str
    model_dtype: str
    batch_tokens: int
    workers: int


class EmbedActor:
    """Holds an encoder and embeds one block a call: the rows of a batch are its tiles."""

    def __init__(self, task: ActorTask) -> None:
        dtype = getattr(torch, task.model_dtype)
        self.encoder = load_encoder(task.checkpoint, device=choose_device(task.device), dtype=dtype)
        self.store, self.task = TileStore.open(task.tiles), task

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Rows of number, tile_ids and tokens -> rows of number, vectors (the bytes of float32 [n, D]) and error.

        What a user can mend comes back as ``error``: an exception would lose its cause on the way through Ray.
        """
        blocks = [Block(row["number"], tuple(row["tile_ids"]), tuple(row["tokens"])) for row in batch.to_pylist()]
        options = {"batch_tokens": self.task.batch_tokens, "workers": self.task.workers}
        rows: list[dict[str, Any]] = []
        try:
            for block, vectors in embed_blocks(self.encoder, self.store, blocks, **options):
                rows.append({"number": block.number, "vectors": vectors.tobytes(), "error": None})
        except UserError as error:
            rows.append({"number": blocks[len(rows)].number, "vectors": None, "error": str(error)})
        return pa.Table.from_pylist(rows, _SCHEMA)


def embed_on_ray(
    blocks: Iterable[Block], task: ActorTask, settings: RaySettings, dimension: int
) -> Iterator[tuple[int, Array]]:
    """(number, vectors [n, D] float32) of ``blocks`` as they come.

    Uses the cluster that RAY_ADDRESS names, else one of this machine that it starts. Raises InputError if Ray isn't
    installed or an actor found a broken tile, StageError if Ray gave up.
    """
    try:
        import ray.data
    except ImportError as error:
        raise InputError("engine ray: Ray can't be imported: pip install 'tilewright[ray]'") from error
    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False)
    try:
        for row in _mapped(ray, blocks, task, settings).iter_rows():
            if row["error"] is not None:
                raise InputError(row["error"])
            yield int(row["number"]), np.frombuffer(row["vectors"], np.float32).reshape(-1, dimension)
    except ray.exceptions.RayError as error:
        raise StageError(f"Ray failed: {error}. What is finished is kept: run the same command again") from error
    finally:
        if started:
            ray.shutdown()


def _mapped(ray: Any, blocks: Iterable[Block], task: ActorTask, settings: RaySettings) -> Any:
    """The data set of the blocks' vectors, not yet made."""
    ray.data.DataContext.get_current().enable_progress_bars = False
    items = [dataclasses.asdict(block) for block in blocks]
    return ray.data.from_items(items, override_num_blocks=min(len(items), _TASKS)).map_batches(
        EmbedActor,
        fn_constructor_args=(task,),
        batch_size=1,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=settings.actors),
        num_cpus=settings.cpus,
        num_gpus=settings.gpus,
    )
