"""One step: the loss is the one written down with loops, and doesn't depend on how many ranks share the batch."""

import json
import os
import runpy
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tilewright.data_gen.records import TrainingExample, to_json
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.batch_plan import BatchPlan
from tilewright.train.contrastive_step import ContrastiveStep
from tilewright.train.encoder import load_encoder
from tilewright.train.objective import LossConfig, Objective
from tilewright.train.step_inputs import StepInputMaker, TileInputs, stack
from tilewright.train.step_stream import StepStream

PROGRAM = Path(__file__).with_name("gradients_program.py")
gradients = runpy.run_path(str(PROGRAM))["gradients"]


def examples_of(ids: tuple[str, ...]) -> list[TrainingExample]:
    """Five queries, seven tiles (ragged negatives, one known positive): two ranks get 2 + 3 and 3 + 4 of them."""
    return [
        TrainingExample("q0", "What is the answer?", ids[0], (ids[5], ids[1])),
        TrainingExample("q1", "Which town is it?", ids[1], ()),
        TrainingExample("q2", "When did it begin?", ids[2], (ids[6],), (ids[5],)),
        TrainingExample("q3", "How far is it from Oslo to Lima, in km?", ids[3], ()),
        TrainingExample("q4", "Who?", ids[4], (ids[0],)),
    ]


CASES = ("both directions", "one direction", "empty share", "both directions, chunks", "one direction, chunks")


def case_of(name: str, ids: tuple[str, ...]) -> dict[str, Any]:
    """`empty share`: one query and two tiles; one of two ranks has no query. `chunks`: two or three a rank."""
    examples = [TrainingExample("q0", "One?", ids[0], (ids[1],))] if name == "empty share" else examples_of(ids)
    listed = [to_json(example) for example in examples]
    return {"examples": listed, "symmetric": name.startswith("both"), "chunk_rows": 2 if "chunks" in name else None}


@pytest.fixture(scope="module")
def two_ranks(reader_parts: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with {case}.safetensors: gradients that two processes over gloo computed together."""
    folder = tmp_path_factory.mktemp("two_ranks")
    cases = {name: case_of(name, reader_parts.tile_ids) for name in CASES}
    (folder / "cases.json").write_text(json.dumps(cases))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [reader_parts.model.parent / "embedder", reader_parts.tiles, folder / "cases.json", folder]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen([sys.executable, str(PROGRAM), *map(str, arguments)], env=os.environ | group | {"RANK": rank})
        for rank in ("0", "1")
    ]
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    return folder


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_give_the_loss_and_gradients_of_one(name: str, two_ranks: Path, reader_parts: Any) -> None:
    case = case_of(name, reader_parts.tile_ids)
    one = gradients(reader_parts.model.parent / "embedder", reader_parts.tiles, case, 0, 1)
    two = load_file(two_ranks / f"{name}.safetensors")
    assert one.keys() == two.keys() and len(one) > 50
    for key, value in one.items():
        torch.testing.assert_close(two[key], value, atol=1e-5, rtol=1e-5, msg=lambda text, key=key: f"{key}: {text}")
    assert two["objective.log_temperature"].abs() > 1e-4


def test_loss_is_that_of_the_encoder_s_own_vectors(reader_parts: Any) -> None:
    """Batched, stacked and labelled by ids: the same as query by query, tile by tile."""
    encoder, store = load_encoder(reader_parts.model.parent / "embedder"), TileStore.open(reader_parts.tiles)
    examples = examples_of(reader_parts.tile_ids)
    inputs = StepInputMaker(BatchPlan(examples, batch_size=5, seed=0), TileInputs(encoder.batcher, store), 0, 1)(0)
    objective = Objective(LossConfig(0.1, learn_temperature=False))
    loss, _ = ContrastiveStep(encoder.model, encoder.forward, objective, encoder.dimension)(inputs)
    tile_ids = sorted({tile for example in examples for tile in (example.positive_tile_id, *example.negative_tile_ids)})
    vectors = {tile_id: encoder.encode_tiles([store.image(tile_id)])[0] for tile_id in tile_ids}
    losses = []
    for example in examples:
        query = encoder.encode_queries([example.query])[0]
        others = [tile for tile in tile_ids if tile not in (example.positive_tile_id, *example.known_positive_tile_ids)]
        scores = torch.stack([query @ vectors[tile] / 0.1 for tile in (example.positive_tile_id, *others)])
        losses.append(scores.logsumexp(0) - scores[0])
    torch.testing.assert_close(loss, torch.stack(losses).mean(), atol=1e-4, rtol=1e-4)


def test_stacked_tiles_equal_tiles_batched_at_once(reader_parts: Any) -> None:
    encoder, store = load_encoder(reader_parts.model.parent / "embedder"), TileStore.open(reader_parts.tiles)
    ids = reader_parts.tile_ids
    at_once = encoder.tile_batch([store.image(tile_id) for tile_id in ids])
    stacked = stack([encoder.tile_batch([store.image(tile_id)]) for tile_id in ids])
    for name in ("input_ids", "attention_mask", "position_ids", "pooled", "patches", "grids"):
        assert torch.equal(getattr(at_once, name), getattr(stacked, name)), name
    assert at_once.image_rows == stacked.image_rows


def test_cache_is_bounded_and_changes_nothing(reader_parts: Any) -> None:
    encoder, store = load_encoder(reader_parts.model.parent / "embedder"), TileStore.open(reader_parts.tiles)
    one = encoder.tile_batch([store.image(reader_parts.tile_ids[0])])
    assert one.patches is not None
    cached, plain = (
        TileInputs(encoder.batcher, store, int(3.5 * one.patches.nbytes)),
        TileInputs(encoder.batcher, store),
    )
    for _ in range(2):
        again, fresh = cached.batch(reader_parts.tile_ids), plain.batch(reader_parts.tile_ids)
        assert again.patches is not None and fresh.patches is not None and torch.equal(again.patches, fresh.patches)
    assert 1 <= len(cached._kept) < len(reader_parts.tile_ids) and not plain._kept


def test_stream_gives_every_step_once_in_order_and_passes_errors_on(reader_parts: Any) -> None:
    encoder, store = load_encoder(reader_parts.model.parent / "embedder"), TileStore.open(reader_parts.tiles)
    plan = BatchPlan(examples_of(reader_parts.tile_ids), batch_size=2, seed=0)
    make = StepInputMaker(plan, TileInputs(encoder.batcher, store), 0, 1)
    stream = StepStream(make, 3, 9, ahead=2)
    assert [inputs.step for inputs in stream] == [3, 4, 5, 6, 7, 8]
    assert stream.wait_s > 0 and list(StepStream(make, 4, 4)) == []
    gone = [TrainingExample("q0", "Which?", "0" * 16 + "-0099-00", ())]
    broken = StepInputMaker(BatchPlan(gone, batch_size=1, seed=0), TileInputs(encoder.batcher, store), 0, 1)
    with pytest.raises(ValueError, match="no tile"):
        next(iter(StepStream(broken, 0, 2)))
