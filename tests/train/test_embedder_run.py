"""An interrupted run goes on to the byte: killed anywhere, asked to stop, on one rank and on two."""

import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.stage import partial_of, run_stage
from tilewright.data_gen.records import TextPair, write_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.train import embedder_run
from tilewright.train.adapters import LoraGroup
from tilewright.train.embedder_run import Run
from tilewright.train.encoder import load_encoder
from tilewright.train.grad_cache import Chunking
from tilewright.train.train_embedder import STAGE, Config

MODULE = ("-m", "tilewright.train.train_embedder")
SLOW_DISK = """
import os, time
from tilewright.configs.stage import main
from tilewright.train import embedder_run, train_embedder
load = embedder_run.training_checkpoint.load_best
def slow(*arguments):
    time.sleep(8 * int(os.environ["RANK"]))
    return load(*arguments)
embedder_run.training_checkpoint.load_best = slow
main(train_embedder.STAGE)
"""


class Killed(BaseException):
    """Stands for a kill: nothing in the stage may catch it."""


def interrupt(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int, act: Callable[[], None]) -> None:
    """Do ``act`` right after the ``call``-th call of ``owner.name``."""
    original, calls = getattr(owner, name), [0]

    def wrapped(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        calls[0] += 1
        if calls[0] == call:
            act()
        return result

    monkeypatch.setattr(owner, name, wrapped)


def killed() -> None:
    raise Killed


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        (Run, "record", 1),  # before the first update
        (Run, "record", 6),  # between two saves
        (embedder_run.training_checkpoint, "save_best", 1),  # best weights of a step that is made again
        (embedder_run.training_checkpoint, "save_resume", 2),
        (embedder_run, "save_encoder", 1),  # all but the manifest is written
    ],
)
def test_a_run_that_goes_on_is_byte_identical(
    owner: Any, name: str, call: int, finished: Path, inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = inputs.config(tmp_path / "embedder")
    with monkeypatch.context() as patch:
        interrupt(patch, owner, name, call, killed)
        with pytest.raises(Killed):
            run_stage(STAGE, config)
    assert not config.out.exists()
    run_stage(STAGE, config)
    assert output_digests(config.out) == output_digests(finished)


def test_sigterm_saves_and_exits(finished: Path, inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = inputs.config(tmp_path / "embedder", save_every=100)
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        interrupt(patch, Run, "update", 5, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(SystemExit, match="stopped after step 5; run it again"):
            run_stage(STAGE, config)
    assert signal.getsignal(signal.SIGTERM) is before
    assert (partial_of(config.out) / ".resume/step-5").is_dir()
    interrupt(monkeypatch, Run, "update", 4, killed)  # three updates remain
    run_stage(STAGE, config)
    assert output_digests(config.out) == output_digests(finished)


def as_yaml(config: Config) -> str:
    lines = ["kind: stage"]
    for name, value in dataclasses.asdict(config).items():
        lines.append(f"{name}: {json.dumps(value, default=str)}")
    return "\n".join(lines).replace("e-05", ".0e-05") + "\n"


def test_kill_9_and_again_is_byte_identical(finished: Path, inputs: Any, tmp_path: Path) -> None:
    """A process of its own, another hash seed, killed while it writes the curve; then finished here."""
    config = inputs.config(tmp_path / "embedder")
    (tmp_path / "run.yaml").write_text(as_yaml(config))
    command = [sys.executable, "-m", "tilewright.train.train_embedder", str(tmp_path / "run.yaml")]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONHASHSEED": "99", "OMP_NUM_THREADS": "1"})
    curve = partial_of(config.out) / "curve.jsonl"
    deadline = time.monotonic() + 300
    while not curve.is_file() or curve.read_bytes().count(b"\n") < 6:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not config.out.exists()
    with curve.open("a") as file:
        file.write('{"step": 9')  # as if cut off in the middle of a line
    run_stage(STAGE, config)
    assert output_digests(config.out) == output_digests(finished)


def test_a_moving_average_resumes_and_is_what_is_kept(
    finished: Path, inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (inputs.config(tmp_path / name, ema_decay=0.9, keep="last") for name in ("one", "two"))
    run_stage(STAGE, one)
    with monkeypatch.context() as patch:
        interrupt(patch, Run, "record", 6, killed)
        with pytest.raises(Killed):
            run_stage(STAGE, two)
    run_stage(STAGE, two)
    assert output_digests(one.out) == output_digests(two.out)
    curves = [(folder / "curve.jsonl").read_text().splitlines() for folder in (one.out, finished)]
    losses = [[json.loads(line).get("loss") for line in curve] for curve in curves]
    assert losses[0] == losses[1]  # training itself goes on with the weights, whatever is searched
    run_stage(STAGE, inputs.config(tmp_path / "last", keep="last"))
    image = TileStore.open(inputs.tiles).image(inputs.tile_ids[0])
    averaged, last = (load_encoder(tmp_path / name / "checkpoint").encode_tiles([image]) for name in ("one", "last"))
    assert not torch.allclose(averaged, last, atol=1e-3)


def test_adapters_resume_to_the_byte(inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"trainable": "adapters", "adapters": {"llm_mlp": LoraGroup(2, 4)}, "steps": 5, "save_every": 2}
    one, two = (inputs.config(tmp_path / name, **changes) for name in ("one", "two"))
    run_stage(STAGE, one)
    with monkeypatch.context() as patch:
        interrupt(patch, Run, "record", 5, killed)
        with pytest.raises(Killed):
            run_stage(STAGE, two)
    run_stage(STAGE, two)
    assert output_digests(one.out) == output_digests(two.out)


def test_the_last_checkpoints_stay_and_survive_a_kill(
    inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"keep_last": 2, "save_every": 2, "steps": 8, "validate_every": 8}
    one, two = (inputs.config(tmp_path / name, **changes) for name in ("one", "two"))
    run_stage(STAGE, one)
    assert sorted(path.name for path in (one.out / "checkpoints").iterdir()) == ["step-6", "step-8"]
    image = TileStore.open(inputs.tiles).image(inputs.tile_ids[0])
    vectors = [load_encoder(one.out / "checkpoints" / name).encode_tiles([image]) for name in ("step-6", "step-8")]
    assert not torch.equal(*vectors)
    with monkeypatch.context() as patch:
        interrupt(patch, embedder_run.training_checkpoint, "keep_last", 3, killed)  # resumes from step 4
        with pytest.raises(Killed):
            run_stage(STAGE, two)
    run_stage(STAGE, two)
    assert output_digests(one.out) == output_digests(two.out)


def test_patience_goes_on_counting_after_a_kill(inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 1 is best, steps 2 and 3 aren't better: the third update is the last, killed after the second or not."""
    changes = {"learning_rate": 1e-9, "steps": 20, "validate_every": 1, "save_every": 1, "patience": 2}
    one, two = (inputs.config(tmp_path / name, **changes) for name in ("one", "two"))
    run_stage(STAGE, one)
    with monkeypatch.context() as patch:
        interrupt(patch, embedder_run.training_checkpoint, "save_resume", 2, killed)
        with pytest.raises(Killed):
            run_stage(STAGE, two)
    run_stage(STAGE, two)
    assert output_digests(one.out) == output_digests(two.out)
    assert json.loads((two.out / "manifest.json").read_text())["counts"]["steps"] == 3


def test_control_c_in_the_warm_up_ends_the_run(inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [TextPair(f"t{n}", f"Where is {n}?", f"Passage {n} tells of it.", "a" * 16, "heading") for n in range(9)]
    write_jsonl(tmp_path / "text_pairs.jsonl", pairs)
    changes = {"text_pairs": tmp_path / "text_pairs.jsonl", "text_steps": 3, "steps": 5, "save_every": 1, "workers": 1}
    one, two = (inputs.config(tmp_path / name, **changes) for name in ("one", "two"))
    run_stage(STAGE, one)
    with monkeypatch.context() as patch:
        interrupt(patch, Run, "update", 2, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            run_stage(STAGE, two)
    assert sorted(path.name for path in (partial_of(two.out) / ".resume").iterdir()) == ["step-1"]
    run_stage(STAGE, two)
    assert output_digests(one.out) == output_digests(two.out)


def test_best_weights_that_are_gone_are_told_before_training_goes_on(
    inputs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = inputs.config(tmp_path / "embedder")
    with monkeypatch.context() as patch:
        interrupt(patch, embedder_run.training_checkpoint, "save_resume", 1, killed)
        with pytest.raises(Killed):
            run_stage(STAGE, config)
    (kept,) = (partial_of(config.out) / ".best").iterdir()
    shutil.rmtree(kept)
    lines = (partial_of(config.out) / "curve.jsonl").read_bytes()
    with pytest.raises(InputError, match=f"{kept.name}: can't be read"):
        run_stage(STAGE, config)
    assert (partial_of(config.out) / "curve.jsonl").read_bytes() == lines


def start_two_ranks(run: Path, *, program: Sequence[str] = MODULE) -> list[subprocess.Popen[bytes]]:
    """The run of a YAML by two processes over gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *program, str(run)]
    return [subprocess.Popen(command, env=os.environ | group | {"RANK": rank}) for rank in ("0", "1")]


def wait_for_lines(curve: Path, count: int, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + 300
    while not curve.is_file() or curve.read_bytes().count(b"\n") < count:
        assert all(process.poll() is None for process in processes) and time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_two_ranks_go_on_to_the_byte(end: signal.Signals, inputs: Any, tmp_path: Path) -> None:
    """Killed after a checkpoint, or asked to stop at any time (only one of the ranks is told), and started again."""
    changes = {"chunking": Chunking(rows=1), "steps": 12, "warmup_steps": 1}
    configs = {name: inputs.config(tmp_path / name, **changes) for name in ("whole", "parts")}
    for name, config in configs.items():
        (tmp_path / f"{name}.yaml").write_text(as_yaml(config))
    assert [process.wait(timeout=300) for process in start_two_ranks(tmp_path / "whole.yaml")] == [0, 0]
    processes = start_two_ranks(tmp_path / "parts.yaml")
    wait_for_lines(partial_of(configs["parts"].out) / "curve.jsonl", 6, processes)
    for process in processes if end == signal.SIGKILL else processes[1:]:
        process.send_signal(end)
    assert all(process.wait(timeout=300) != 0 for process in processes)
    assert not configs["parts"].out.exists()
    assert [process.wait(timeout=300) for process in start_two_ranks(tmp_path / "parts.yaml")] == [0, 0]
    assert output_digests(configs["whole"].out) == output_digests(configs["parts"].out)


@pytest.mark.slow
def test_the_folder_stays_until_every_rank_has_read_the_best_weights(inputs: Any, tmp_path: Path) -> None:
    """Rank 1 reads them from a slow disk, long after rank 0 has written the checkpoint."""
    config = inputs.config(tmp_path / "out", steps=3, validate_every=1, learning_rate=1e-9)
    (tmp_path / "run.yaml").write_text(as_yaml(config).replace("1e-09", "1.0e-9"))
    processes = start_two_ranks(tmp_path / "run.yaml", program=("-c", SLOW_DISK))
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    assert json.loads((config.out / "manifest.json").read_text())["counts"]["kept_step"] < 3
