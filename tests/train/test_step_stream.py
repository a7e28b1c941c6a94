"""The stream: the same inputs from any number of processes, from any step; errors, kills and breaks leave nothing."""

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.errors import InputError, UserError
from tilewright.data_gen.records import TextPair, TrainingExample, to_json
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.batch import Batch, Batcher
from tilewright.train.batch_plan import BatchPlan
from tilewright.train.encoder import load_encoder
from tilewright.train.loader_processes import LoaderError, LoaderProcesses
from tilewright.train.step_inputs import Piece, StepInputMaker, StepInputs, TileInputs
from tilewright.train.step_stream import StepStream
from tilewright.train.text_plan import TextPlan, WarmupPlan

torch.set_num_threads(1)
STEPS = 7


@pytest.fixture(scope="module")
def batcher(reader_parts: Any) -> Batcher:
    return load_encoder(reader_parts.model.parent / "embedder").batcher


@pytest.fixture(scope="module")
def plan(reader_parts: Any) -> WarmupPlan:
    """Two steps of texts, then pictures: ten examples, ragged negatives, all eight tiles."""
    ids = reader_parts.tile_ids
    examples = [
        TrainingExample(f"q{n}", f"Question {n} of how many?", ids[n % 5], ids[5 : 5 + n % 4]) for n in range(10)
    ]
    images = BatchPlan(examples, batch_size=4, seed=3, hard_negatives=2)
    pairs = [
        TextPair(f"t{n}", f"Where is {n}?", f"Number {n % 4} is there. " * (n % 4 + 1), "", "test") for n in range(9)
    ]
    return WarmupPlan(
        TextPlan(pa.Table.from_pylist([to_json(pair) for pair in pairs]), batch_size=4, seed=3), 2, images
    )


def stream_of(plan: WarmupPlan, batcher: Batcher, store: TileStore, **options: Any) -> StepStream:
    rank, world = options.pop("rank", 0), options.pop("world", 1)
    tiles = TileInputs(batcher, store, options.pop("cache_bytes", 0))
    first, last = options.pop("first", 0), options.pop("last", STEPS)
    return StepStream(StepInputMaker(plan, tiles, rank, world), first, last, **options)


def assert_equal(one: StepInputs, other: StepInputs) -> None:
    """Bit for bit, field by field."""
    for field in dataclasses.fields(StepInputs):
        a, b = getattr(one, field.name), getattr(other, field.name)
        for x, y in zip(parts(a), parts(b), strict=True):
            same = torch.equal(x, y) and x.dtype == y.dtype if isinstance(x, torch.Tensor) else x == y
            assert same, (one.step, field.name)


def parts(value: Any) -> list[Any]:
    return [getattr(value, field.name) for field in dataclasses.fields(value)] if isinstance(value, Batch) else [value]


@pytest.fixture(scope="module")
def wanted(plan: WarmupPlan, batcher: Batcher, reader_parts: Any) -> list[StepInputs]:
    """Each step made on its own, without a stream."""
    make = StepInputMaker(plan, TileInputs(batcher, reader_parts.store()), 0, 1)
    return [make(step) for step in range(STEPS)]


@pytest.mark.parametrize("options", [{}, {"cache_bytes": 1 << 20}, {"ahead": 0}], ids=str)
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_inputs_are_the_same_for_any_number_of_workers(
    workers: int,
    options: dict[str, int],
    wanted: list[StepInputs],
    plan: WarmupPlan,
    batcher: Batcher,
    reader_parts: Any,
) -> None:
    stream = stream_of(plan, batcher, reader_parts.store(), workers=workers, **options)
    found = list(stream)
    assert [inputs.step for inputs in found] == list(range(STEPS)) and stream.wait_s > 0
    for one, other in zip(found, wanted, strict=True):
        assert_equal(one, other)
    assert found[STEPS - 1].tiles is not None and found[STEPS - 1].tiles.patches is not None
    assert found[STEPS - 1].tiles.patches.dtype == torch.uint8


@settings(max_examples=25, deadline=None)
@given(first=st.integers(0, STEPS), ahead=st.integers(0, 4))
def test_a_resumed_stream_goes_on_as_the_uninterrupted_one(
    first: int, ahead: int, wanted: list[StepInputs], plan: WarmupPlan, batcher: Batcher, reader_parts: Any
) -> None:
    found = list(stream_of(plan, batcher, reader_parts.store(), first=first, ahead=ahead))
    assert len(found) == STEPS - first
    for one, other in zip(found, wanted[first:], strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_each_batch(
    world: int, wanted: list[StepInputs], plan: WarmupPlan, batcher: Batcher, reader_parts: Any
) -> None:
    """Their rows in rank order are the rows of one rank; labels, counts and the kind of step are the same on all."""
    store = reader_parts.store()
    ranks = [list(stream_of(plan, batcher, store, rank=rank, world=world)) for rank in range(world)]
    for step, whole in enumerate(wanted):
        shares = [rank[step] for rank in ranks]
        assert {share.with_images for share in shares} == {whole.with_images} and shares[0].examples == whole.examples
        assert sum(share.visual_tokens for share in shares) == whole.visual_tokens
        for side, counts in (("queries", "query_counts"), ("tiles", "tile_counts")):
            batches = [getattr(share, side) for share in shares]
            assert [0 if batch is None else len(batch) for batch in batches] == getattr(shares[0], counts)
            assert unpadded(batches) == unpadded([getattr(whole, side)])
        for share in shares:
            assert torch.equal(share.positive, whole.positive) and torch.equal(share.ignore, whole.ignore)
            assert share.query_counts == shares[0].query_counts and share.tile_counts == shares[0].tile_counts


def unpadded(batches: list[Batch | None]) -> list[list[int]]:
    return [
        row[mask.bool()].tolist()
        for batch in batches
        if batch is not None
        for row, mask in zip(batch.input_ids, batch.attention_mask, strict=True)
    ]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_process_is_a_loud_error(number: signal.Signals, batcher: Batcher, reader_parts: Any) -> None:
    loader = LoaderProcesses(TileInputs(batcher, reader_parts.store()), 2)
    piece = Piece("tiles", reader_parts.tile_ids[:4])
    for future in [loader.submit(piece) for _ in range(6)]:
        assert len(future.result()) == 4
    pids = loader.pids
    assert len(pids) == 2 and all(map(is_alive, pids))
    os.kill(pids[0], number)
    started = time.monotonic()
    with pytest.raises(LoaderError, match=f"loader process {pids[0]} was killed by signal {int(number)}"):
        for future in [loader.submit(piece) for _ in range(6)]:
            future.result()
    assert time.monotonic() - started < 60
    loader.close()
    assert not any(map(is_alive, pids))
    assert issubclass(LoaderError, UserError)  # the user can mend it: a message, no traceback


def test_a_kill_in_the_middle_of_a_stream_ends_it(
    plan: WarmupPlan, batcher: Batcher, reader_parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a hang, and not a step with other tiles: steps before the error are whole."""
    loaders = kept_loaders(monkeypatch)
    stream = stream_of(plan, batcher, reader_parts.store(), workers=2, last=10_000)
    with pytest.raises(LoaderError, match="was killed by signal 9"):
        for inputs in stream:
            if inputs.step == 5:
                os.kill(loaders[0].pids[1], signal.SIGKILL)
    assert not any(map(is_alive, started_pids(loaders)))


def kept_loaders(monkeypatch: pytest.MonkeyPatch) -> list[LoaderProcesses]:
    """Those that streams make from now on."""
    found: list[LoaderProcesses] = []
    plain = LoaderProcesses.__init__

    def keeping(self: LoaderProcesses, *arguments: Any) -> None:
        plain(self, *arguments)
        found.append(self)

    monkeypatch.setattr(LoaderProcesses, "__init__", keeping)
    return found


def started_pids(loaders: list[LoaderProcesses]) -> list[int]:
    return [pid for loader in loaders for pid in loader.pids]


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_are_passed_on_as_they_are(workers: int, batcher: Batcher, reader_parts: Any, tmp_path: Path) -> None:
    """An InputError keeps its type and message and carries the process's traceback as a note."""
    gone = TrainingExample("q0", "Which?", "0" * 16 + "-0099-00", ())
    stream = StepStream(
        StepInputMaker(BatchPlan([gone], batch_size=1, seed=0), TileInputs(batcher, reader_parts.store()), 0, 1),
        0,
        9,
        workers=workers,
    )
    with pytest.raises(InputError, match="no tile '0000000000000000-0099-00' among its 8 tiles"):
        list(stream)
    empty = TrainingExample("q1", "  ", reader_parts.tile_ids[0], ())
    make = StepInputMaker(BatchPlan([empty], batch_size=1, seed=0), TileInputs(batcher, reader_parts.store()), 0, 1)
    with pytest.raises(InputError, match="empty") as caught:
        list(StepStream(make, 0, 9, workers=workers))
    assert workers == 0 or "in serve" in caught.value.__notes__[0]


@pytest.mark.parametrize("how", ["break", "error"])
def test_leaving_early_leaves_no_process(
    how: str, plan: WarmupPlan, batcher: Batcher, reader_parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaders = kept_loaders(monkeypatch)
    iterator = iter(stream_of(plan, batcher, reader_parts.store(), workers=2, last=10_000))
    next(iterator)
    pids = loaders[0].pids
    assert pids
    if how == "break":
        iterator.close()  # type: ignore[attr-defined]
    else:
        with pytest.raises(KeyboardInterrupt):
            iterator.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    assert not any(map(is_alive, pids))


PROGRAM = """
import pickle, signal, sys, time
from pathlib import Path
from tilewright.data_gen.records import TrainingExample
from tilewright.train import step_stream
from tilewright.train.batch_plan import BatchPlan
from tilewright.train.loader_processes import LoaderProcesses
from tilewright.train.run_control import stop_on_sigterm
from tilewright.train.step_inputs import StepInputMaker

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits that it's ignored
    ids = sys.argv[2].split(",")
    plan = BatchPlan([TrainingExample(f"q{n}", f"{n}?", ids[n % 8], ()) for n in range(16)], batch_size=4, seed=0)
    tiles = pickle.loads(Path(sys.argv[1]).read_bytes())
    made = []
    class Kept(LoaderProcesses):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)
    step_stream.LoaderProcesses = Kept
    iterator = iter(step_stream.StepStream(StepInputMaker(plan, tiles, 0, 1), 0, 10**6, workers=2))
    with stop_on_sigterm() as stop:
        for inputs in iterator:
            if inputs.step == 3:
                print("pids", *made[0].pids, flush=True)
            if stop.requested:
                print("stopped whole", inputs.tiles is not None, flush=True)
                break
            time.sleep(0.01)
    # the generator is still open: the interpreter's end must close it
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_signals_to_the_whole_group_leave_no_process(
    number: signal.Signals, batcher: Batcher, reader_parts: Any, tmp_path: Path
) -> None:
    """SIGTERM to all (as a scheduler sends it): the loop ends its step with data. SIGKILL: all follow the parent."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "tiles").write_bytes(pickle.dumps(TileInputs(batcher, reader_parts.store())))
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "tiles"), ",".join(reader_parts.tile_ids)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()[1:]]
    assert len(pids) >= 1 and all(map(is_alive, pids))
    if number == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, number)
    try:
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == (0 if number == signal.SIGTERM else -number)
    assert rest == ("stopped whole True\n" if number == signal.SIGTERM else "")
    deadline = time.monotonic() + 10
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, pids))


def test_impossible_options_are_refused(plan: WarmupPlan, batcher: Batcher, reader_parts: Any) -> None:
    with pytest.raises(ValueError, match="workers and ahead >= 0"):
        stream_of(plan, batcher, reader_parts.store(), workers=-1)
    assert list(stream_of(plan, batcher, reader_parts.store(), first=4, last=4, workers=2)) == []
