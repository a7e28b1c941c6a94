"""Train an embedder on (q, p, negatives): examples + tiles + model -> checkpoint/ and curve.jsonl."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, main
from tilewright.train.distributed import choose_device, process_group
from tilewright.train.embedder_config import Config
from tilewright.train.embedder_run import Run
from tilewright.train.encoder import load_encoder
from tilewright.train.launch import check_launch
from tilewright.train.loader_processes import prepare
from tilewright.train.run_control import stop_on_sigterm, torch_threads
from tilewright.train.training_data import load_training_data


def train_embedder(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write ``checkpoint/`` (for load_encoder) and ``curve.jsonl``; goes on from a partial run in ``out``.

    Raises InputError for unusable inputs, StageError if the loss isn't finite, SystemExit after SIGTERM (saved).
    """
    device = choose_device()
    if config.workers:
        prepare()  # it takes seconds, meanwhile the model loads
    with torch_threads(config.threads), process_group(device) as (rank, world), stop_on_sigterm() as stop:
        check_launch(
            world=world,
            batch_size=config.batch_size,
            chunking=config.chunking,
            use_dora=config.use_dora,
            ema=config.ema_decay is not None,
        )
        frozen = torch.float32 if config.trainable == "full" else getattr(torch, config.precision)
        with ThreadPoolExecutor(1) as pool:  # beside the model
            loading = pool.submit(
                load_training_data,
                inputs,
                seed=config.seed,
                limit_examples=config.limit_examples,
                validation_queries=config.validation_queries,
                train_recall_queries=config.train_recall_queries,
                kept=out / ".examples",
                write_kept=rank == 0,
            )
            encoder = load_encoder(inputs["model"], device=device, dtype=frozen)
            data = loading.result()
        if config.keep == "best" and not data.validation.queries:
            raise InputError(f"{inputs['validation']}: no validation questions: wanted some, or `keep: last`")
        run = Run(config, data, encoder, out, rank, world)
        run.train(stop)
        return run.finish()


STAGE = Stage("train_embedder", Config, train_embedder, schema=2, distributed=True)

if __name__ == "__main__":
    main(STAGE)
