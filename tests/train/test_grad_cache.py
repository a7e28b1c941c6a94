"""GradCache gives the gradients of the plain step: any chunks, dropout on, graphs kept or made again, checkpointed."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tilewright.data_gen.records import TrainingExample
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.batch_plan import BatchPlan
from tilewright.train.contrastive_step import ContrastiveStep
from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.grad_cache import CachedVectors, Chunking
from tilewright.train.graph_memory import GraphMemory
from tilewright.train.objective import LossConfig, Objective
from tilewright.train.step_inputs import StepInputMaker, StepInputs, TileInputs

SEED = 20
CHUNKINGS = {
    "one row": Chunking(rows=1),
    "three rows": Chunking(rows=3),
    "ragged by tokens": Chunking(tokens=100),
    "rows and tokens": Chunking(rows=2, tokens=120),
    "all graphs kept": Chunking(rows=2, keep_mib=None),
    "some graphs kept": Chunking(rows=1, keep_mib=6),
    "whole": Chunking(),
}


@pytest.fixture(scope="module")
def encoder(reader_parts: Any) -> Encoder:
    """A tiny encoder in training mode whose attention drops a fifth."""
    encoder = load_encoder(reader_parts.model.parent / "embedder")
    dropping = [module for module in encoder.model.modules() if hasattr(module, "attention_dropout")]
    assert len(dropping) >= 4
    for module in dropping:
        module.attention_dropout = 0.2  # type: ignore[assignment]
    encoder.model.train()
    return encoder


@pytest.fixture(scope="module")
def inputs(encoder: Encoder, reader_parts: Any) -> StepInputs:
    """Five queries and seven tiles of different sizes."""
    ids = reader_parts.tile_ids
    examples = [
        TrainingExample("q0", "What is the answer?", ids[0], (ids[5], ids[1])),
        TrainingExample("q1", "Which town is it?", ids[1], ()),
        TrainingExample("q2", "When did it begin?", ids[2], (ids[6],), (ids[5],)),
        TrainingExample("q3", "How far is it from Oslo to Lima, in km, by road and then by sea?", ids[3], ()),
        TrainingExample("q4", "Who?", ids[4], (ids[0],)),
    ]
    tiles = TileInputs(encoder.batcher, TileStore.open(reader_parts.tiles))
    return StepInputMaker(BatchPlan(examples, batch_size=5, seed=0), tiles, 0, 1)(0)


def gradients_of(encoder: Encoder, objective: Objective) -> dict[str, Tensor]:
    """{name: gradient} of all parameters; they are dropped."""
    parameters = dict(encoder.model.named_parameters()) | {"temperature": objective.log_temperature}
    found = {name: parameter.grad.clone() for name, parameter in parameters.items() if parameter.grad is not None}
    for parameter in parameters.values():
        parameter.grad = None
    return found


def plain(encoder: Encoder, inputs: StepInputs, chunking: Chunking) -> tuple[Tensor, dict[str, Tensor]]:
    """The same chunks, all embedded with gradient, and one backward pass."""
    objective = Objective(LossConfig(0.1, learn_temperature=True, symmetric=True))
    torch.manual_seed(SEED)
    queries, tiles = (
        torch.cat([encoder.forward(chunk) for chunk in chunking.cut(batch)]) for batch in (inputs.queries, inputs.tiles)
    )
    loss, _ = objective(queries, tiles, inputs.positive, inputs.ignore)
    loss.backward()
    return loss.detach(), gradients_of(encoder, objective)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", CHUNKINGS)
def test_gradients_are_those_of_the_plain_step(
    name: str, checkpointing: bool, encoder: Encoder, inputs: StepInputs
) -> None:
    chunking = CHUNKINGS[name]
    wanted_loss, wanted = plain(encoder, inputs, chunking)
    objective = Objective(LossConfig(0.1, learn_temperature=True, symmetric=True))
    step = ContrastiveStep(encoder.model, encoder.forward, objective, encoder.dimension, chunking=chunking)
    if checkpointing:
        encoder.model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
    try:
        torch.manual_seed(SEED)
        loss, _ = step(inputs)
    finally:
        encoder.model.gradient_checkpointing_disable()  # type: ignore[operator]
    torch.testing.assert_close(loss, wanted_loss, atol=1e-6, rtol=0)
    found = gradients_of(encoder, objective)
    assert found.keys() == wanted.keys() and len(found) > 50
    largest = max(gradient.norm().item() for gradient in wanted.values())
    for parameter, gradient in wanted.items():
        error = (found[parameter] - gradient).norm().item()
        assert error <= 1e-5 * gradient.norm().item() + 1e-8 * largest, (parameter, error, gradient.norm().item())


def test_dropout_is_on_in_this_test(encoder: Encoder, inputs: StepInputs) -> None:
    """Another seed gives another loss, so equal losses above mean equal random numbers."""
    first, _ = plain(encoder, inputs, Chunking())
    torch.manual_seed(SEED + 1)
    assert inputs.queries is not None and inputs.tiles is not None
    with torch.no_grad():
        queries, tiles = encoder.forward(inputs.queries), encoder.forward(inputs.tiles)
        other, _ = Objective(LossConfig(0.1, True))(queries, tiles, inputs.positive, inputs.ignore)
    assert abs(first - other) > 1e-4


def test_the_random_stream_goes_on_as_if_nothing_had_been_replayed(encoder: Encoder, inputs: StepInputs) -> None:
    chunks = Chunking(rows=1).cut(inputs.tiles)
    states = []
    for keep_mib in (None, 0):
        torch.manual_seed(SEED)
        cached = CachedVectors(chunks, encoder.forward, Chunking(rows=1, keep_mib=keep_mib), GraphMemory(encoder.model))
        for loss in cached.losses():
            loss.backward()  # type: ignore[no-untyped-call]
        states.append(torch.get_rng_state())
    assert torch.equal(states[0], states[1])
    gradients_of(encoder, Objective(LossConfig(0.1, True)))


def test_repeated_passes_count_for_nothing(encoder: Encoder, inputs: StepInputs) -> None:
    """A rank with fewer chunks than another makes the others' passes too, with a gradient of zero."""
    encoder.model.eval()
    chunks = Chunking(rows=3).cut(inputs.tiles)
    found = []
    for passes in (0, 5):
        cached = CachedVectors(chunks, encoder.forward, Chunking(rows=3), GraphMemory(encoder.model), passes)
        assert cached.vectors is not None and len(cached) == max(len(chunks), passes)
        cached.vectors.grad = torch.linspace(-1, 1, cached.vectors.numel()).view_as(cached.vectors)
        losses = 0
        for loss in cached.losses():
            loss.backward()  # type: ignore[no-untyped-call]
            losses += 1
        assert losses == len(cached)
        found.append(gradients_of(encoder, Objective(LossConfig(0.1, True))))
    encoder.model.train()
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
    with pytest.raises(ValueError, match="at least one row a rank"):
        CachedVectors([], encoder.forward, Chunking(), GraphMemory(encoder.model), 2)


@settings(max_examples=40, deadline=None)
@given(rows=st.none() | st.integers(1, 8), tokens=st.none() | st.integers(1, 400))
def test_chunks_hold_every_row_once_within_the_bounds(rows: int | None, tokens: int | None, inputs: StepInputs) -> None:
    batch = inputs.tiles
    assert batch is not None
    chunks = Chunking(rows=rows, tokens=tokens).cut(batch)
    assert sum(len(chunk) for chunk in chunks) == len(batch)
    ids = [
        row[mask.bool()].tolist()
        for chunk in chunks
        for row, mask in zip(chunk.input_ids, chunk.attention_mask, strict=True)
    ]
    assert ids == [row[mask.bool()].tolist() for row, mask in zip(batch.input_ids, batch.attention_mask, strict=True)]
    for chunk in chunks:
        longest = int(chunk.attention_mask.sum(1).max())
        assert len(chunk) == 1 or tokens is None or longest * len(chunk) <= tokens
        assert rows is None or len(chunk) <= rows


def test_a_memory_budget_bounds_what_is_kept(encoder: Encoder, inputs: StepInputs) -> None:
    chunks = Chunking(rows=1).cut(inputs.tiles)
    memory = GraphMemory(encoder.model)
    everything = CachedVectors(chunks, encoder.forward, Chunking(rows=1, keep_mib=None), memory)
    total = memory.kept_bytes
    assert total > len(chunks) << 16
    memory.start_step()
    half = total / 2 / 2**20
    some = CachedVectors(chunks, encoder.forward, Chunking(rows=1, keep_mib=int(half)), memory)
    assert 0 < memory.kept_bytes <= half * 2**20
    kept = sum(embedded is not None for embedded in some._kept)
    assert 0 < kept < len(chunks) == sum(embedded is not None for embedded in everything._kept)


@pytest.mark.parametrize("options", [{"rows": 0}, {"tokens": 0}, {"keep_mib": -1}])
def test_impossible_chunks_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="wanted at least"):
        Chunking(**options)
