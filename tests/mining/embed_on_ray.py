"""Program: embed_tiles on a local Ray cluster with two actors that stop in their first calls until ``go`` is there.

Arguments: the folder with tiles/, broken/ and tiny/, and the folder to work in. There every call leaves a line in
``calls-PID``; first it embeds broken/ and writes what that says into ``error``.
"""

import os
import sys
import time
from pathlib import Path

import pyarrow as pa
import ray
import torch

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.mining import embed_ray
from tilewright.mining.embed_tiles import STAGE, Config

ROOT, WORK = map(Path, sys.argv[1:3])


class WaitingActor(embed_ray.EmbedActor):
    """Notes the block, then waits."""

    def __call__(self, batch: pa.Table) -> pa.Table:
        torch.set_num_threads(1)
        with (WORK / f"calls-{os.getpid()}").open("a") as file:
            file.write(f"{batch.column('number')[0].as_py()}\n")
        deadline = time.monotonic() + 300
        while not (WORK / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return super().__call__(batch)


def main() -> None:
    ray.init(num_cpus=2, log_to_driver=False)
    options = {"checkpoint": ROOT / "tiny/embedder", "block_tiles": 4, "window_blocks": 3, "batch_tokens": 24}
    more = {"device": "cpu", "shard_bytes": 10 * 64 * 4, "engine": "ray"}
    try:
        run_stage(STAGE, Config(WORK / "broken", tiles=ROOT / "broken", **options, **more))  # type: ignore[arg-type]
    except InputError as error:
        (WORK / "error").write_text(str(error))
    embed_ray.EmbedActor = WaitingActor  # type: ignore[misc]
    run_stage(STAGE, Config(WORK / "out", tiles=ROOT / "tiles", **options, **more))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
