"""Run under several ranks: one contrastive step for each case; rank 0 saves losses, statistics and gradients.

Arguments: the encoder's folder, the tile store, a JSON file of {case: examples and options}, the output folder.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tilewright.data_gen.records import TrainingExample, from_json
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.adapters import trainable
from tilewright.train.batch_plan import BatchPlan
from tilewright.train.contrastive_step import ContrastiveStep
from tilewright.train.distributed import average_gradients, process_group
from tilewright.train.encoder import load_encoder
from tilewright.train.grad_cache import Chunking
from tilewright.train.objective import LossConfig, Objective
from tilewright.train.step_inputs import StepInputMaker, TileInputs


def gradients(model: Path, tiles: Path, case: dict[str, Any], rank: int, world: int) -> dict[str, torch.Tensor]:
    """{name: tensor}: the averaged gradients of one step, its loss and its statistics."""
    examples = [from_json(TrainingExample, example) for example in case["examples"]]
    encoder = load_encoder(model)
    objective = Objective(LossConfig(0.1, learn_temperature=True, symmetric=case["symmetric"]))
    plan = BatchPlan(examples, batch_size=len(examples), seed=0)
    inputs = StepInputMaker(plan, TileInputs(encoder.batcher, TileStore.open(tiles)), rank, world)(0)
    chunking = Chunking(rows=case["chunk_rows"])
    step = ContrastiveStep(encoder.model, encoder.forward, objective, encoder.dimension, chunking=chunking)
    loss, stats = step(inputs)
    weights = trainable(torch.nn.ModuleDict({"encoder": encoder.model, "objective": objective}))
    average_gradients(weights.values())
    found = {name: parameter.grad for name, parameter in weights.items() if parameter.grad is not None}
    return found | {"loss": loss} | {f"stats.{name}": value for name, value in stats.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, store, cases, output = (Path(argument) for argument in sys.argv[1:])
    with process_group(torch.device("cpu")) as (this_rank, ranks):
        for name, case in json.loads(cases.read_text()).items():
            result = gradients(folder, store, case, this_rank, ranks)
            if this_rank == 0:
                save_file({key: value.contiguous() for key, value in result.items()}, output / f"{name}.safetensors")
