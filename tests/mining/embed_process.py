"""embed_tiles in a process of its own, as a rank, counted, and killed where a test wants it.

Processes are forked from a server that has imported everything and computed nothing: a fork of the tests' own process
could inherit a lock of torch's.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tilewright.configs.stage import run_stage
from tilewright.mining.embed_tiles import STAGE, Config
from tilewright.train import encoder_io
from tilewright.train.encoder import Encoder


def embed_and_die(settings: Config, embedded: Path, after: int) -> None:
    """Run until the ``after``-th time that something is about to reach the disk for good; then SIGKILL."""
    left = after

    def counted(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    os.fsync = counted(os.fsync)
    Path.replace = counted(Path.replace)  # type: ignore[method-assign]
    Path.unlink = counted(Path.unlink)  # type: ignore[method-assign]
    embed(settings, embedded)


def embed(settings: Config, embedded: Path, rank: int = 0, world: int = 1) -> None:
    """Run the stage as a rank; a line a batch goes to ``embedded``: how many pictures went through the model."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    forward = Encoder.forward

    def counted(encoder: Encoder, batch: Any) -> torch.Tensor:
        with embedded.open("a") as file:
            file.write(f"{len(batch)}\n")
        return forward(encoder, batch)

    Encoder.forward = counted  # type: ignore[method-assign]
    encoder_io._check_probes = lambda folder, encoder: None  # type: ignore[assignment]
    run_stage(STAGE, settings)


def start(work: Callable[..., None], *arguments: Any) -> Any:
    """``work`` in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "tilewright.train.qwen3_vl", "tilewright.train.qwen_family"])
    process = context.Process(target=work, args=arguments)
    process.start()
    return process
