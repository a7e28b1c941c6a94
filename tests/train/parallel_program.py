"""Run under several ranks: a few updates of a tiny encoder, the way the launcher's environment asks for.

Arguments: the encoder's folder, the tile store, an output folder, a JSON file of {case: options}. For each case rank 0
saves losses, norms, vectors, weights and the optimiser's state in the folder CASE; see ``Options``.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor

from tilewright.data_gen.tile_store import TileStore
from tilewright.train.adapters import LoraGroup, MovementCheck, add_adapters
from tilewright.train.batch import Batch
from tilewright.train.contrastive_step import ContrastiveStep
from tilewright.train.distributed import process_group
from tilewright.train.encoder import Encoder, load_encoder, save_encoder
from tilewright.train.grad_cache import Chunking
from tilewright.train.objective import LossConfig, Objective
from tilewright.train.optimizer import exercised, make_optimizer, peak_rates
from tilewright.train.parallel import choose_parallel
from tilewright.train.step_inputs import StepInputs

GROUPS = {
    "llm_attn": LoraGroup(3, 6, learning_rate=0.02),
    "vit_attn": LoraGroup(2, 2),
    "vit_mlp": LoraGroup(2, 4),
    "merger": LoraGroup(3, 3),
}
QUERIES = ("What is the answer?", "Which town is it?", "When did it begin?", "How far is it?", "Who?")
PASSAGES = ("It is forty-two.", "The town is Lima.", "It began in 1815, as far as is known.", "42 km.", "Ada.")


@dataclass(frozen=True)
class Options:
    """``kinds``: of each step, `text` or `tiles`; ``resume``: the case to go on from (its steps' ``kinds`` are then
    left out); ``groups``: adapters, by name; ``full``: train all weights; ``precision``: of frozen ones, and of what
    is computed."""

    kinds: tuple[str, ...] = ("tiles",) * 3
    resume: str | None = None
    groups: tuple[str, ...] = tuple(GROUPS)
    full: bool = False
    precision: str = "float32"
    weight_decay: float = 0.1
    max_grad_norm: float = 0.5
    log_temperature: float = -2.3  # at the start, whatever its bound
    temperature_learning_rate: float = 0.01
    gradient_checkpointing: bool = False
    eps: float = 1e-3  # with AdamW's 1e-8, rounding in a gradient of zero becomes a whole step


def share(rows: list[int], rank: int, world: int) -> list[int]:
    """A rank's rows: ragged where they don't divide."""
    return rows[len(rows) * rank // world : len(rows) * (rank + 1) // world]


def inputs(encoder: Encoder, store: TileStore, kind: str, rank: int, world: int) -> StepInputs:
    """Five queries against seven tiles, or five passages."""
    tile_ids = sorted(store.tile_ids)[: 7 if kind == "tiles" else 5]
    queries, tiles = list(range(5)), list(range(len(tile_ids)))
    mine = share(tiles, rank, world)
    batch: Batch
    if kind == "tiles":
        batch = encoder.tile_batch([store.image(tile_ids[i]) for i in mine])
    else:
        batch = encoder.document_batch([PASSAGES[i] for i in mine])
    ignore = torch.zeros(5, len(tiles), dtype=torch.bool)
    ignore[1, 0] = True
    return StepInputs(
        queries=encoder.query_batch([QUERIES[i] for i in share(queries, rank, world)]),
        tiles=batch,
        query_counts=[len(share(queries, r, world)) for r in range(world)],
        tile_counts=[len(share(tiles, r, world)) for r in range(world)],
        positive=torch.arange(5),
        ignore=ignore,
        step=0,
        examples=5,
        with_images=kind == "tiles",
        visual_tokens=0,
    )


def run(model: Path, tiles: Path, out: Path, options: Options, rank: int, world: int) -> None:
    """See the module."""
    encoder, store = load_encoder(model, dtype=getattr(torch, options.precision)), TileStore.open(tiles)
    groups = {} if options.full else {name: GROUPS[name] for name in options.groups}
    if groups:
        encoder.model = add_adapters(encoder.model, groups, seed=3)
    if options.gradient_checkpointing:
        encoder.model.gradient_checkpointing_enable({"use_reentrant": False})

    def embed(batch: Batch) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bfloat16"):
            return encoder.forward(batch)

    objective = Objective(LossConfig(0.1, learn_temperature=True, symmetric=True))
    objective.log_temperature.data.fill_(options.log_temperature)
    training = choose_parallel(
        encoder,
        objective,
        lambda weights: make_optimizer(weights, groups, weight_decay=options.weight_decay, eps=options.eps),
        options.max_grad_norm,
        embed,
    )
    parallel = training.parallel
    step = ContrastiveStep(
        encoder.model,
        training.embed,
        training.objective,
        encoder.dimension,
        chunking=Chunking(rows=2),
        backward=parallel.backward,
        equal_passes=parallel.equal_passes,
    )
    first, figures = 0, {}
    if options.resume:
        state = torch.load(out.parent / options.resume / "state.pt", weights_only=True)
        parallel.load_weights(state["weights"])
        parallel.load_optimizer_state(state["optimizer"])
        first = state["steps"]
    peaks = peak_rates(parallel.optimizer, groups, 0.005, options.temperature_learning_rate)
    check = MovementCheck(groups, parallel.weights())
    encoder.model.train()
    for number, kind in enumerate(options.kinds[first:], first):
        loss, _ = step(inputs(encoder, store, kind, rank, world))
        rates = exercised(peaks, kind == "tiles")
        norm = parallel.update(rates)
        objective.clamp()
        figures |= {f"loss.{number}": loss, f"norm.{number}": norm.float()}
        if check.waiting:
            check.after_update(parallel.weights(), rates)
    weights, optimizer = parallel.weights(), parallel.optimizer_state()
    with parallel.whole():
        pictures = share(sorted(store.tile_ids), rank, world)[: 1 + rank]  # ranks encode as they like
        vectors = encoder.encode_tiles([store.image(tile_id) for tile_id in pictures], batch_tokens=1)
        if rank == 0:
            save_encoder(encoder, out / "checkpoint")
            figures["vectors"] = vectors
    if rank == 0:
        torch.save({"weights": weights, "optimizer": optimizer, "steps": len(options.kinds)}, out / "state.pt")
        moments = {f"{n}/{k}": v for n, state in optimizer.items() for k, v in state.items()}
        save_file(
            {k: v.clone().contiguous() for k, v in (weights | moments | figures).items()}, out / "run.safetensors"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, store_folder, output = (Path(argument) for argument in sys.argv[1:4])
    with process_group(torch.device("cpu")) as (this_rank, all_ranks):
        for case, values in json.loads(Path(sys.argv[4]).read_text()).items():
            (output / case).mkdir(exist_ok=True)
            run(folder, store_folder, output / case, Options(**values), this_rank, all_ranks)
            if dist.is_initialized():
                dist.barrier()
