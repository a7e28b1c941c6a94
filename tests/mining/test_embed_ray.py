"""embed_tiles on a Ray cluster: the bytes of one process, also when an actor dies at work."""

import dataclasses
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tests.mining.embed_corpus import PICTURES, config, tile, write_tiles, write_tiny

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.tile_store import write_store
from tilewright.mining.embed_ray import ActorTask, RaySettings, embed_on_ray
from tilewright.mining.embed_tiles import STAGE, write_vectors

torch.set_num_threads(1)


def test_without_ray_and_under_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    task = ActorTask(tmp_path, tmp_path, "cpu", "float32", 24, 1)
    with pytest.raises(InputError, match=r"pip install 'tilewright\[ray\]'"):
        list(embed_on_ray([], task, RaySettings(), 64))
    with pytest.raises(InputError, match=r"engine ray: wanted one process \(Ray starts its own\), found 2 ranks"):
        write_vectors(config(tmp_path, tmp_path / "out", engine="ray"), {}, tmp_path, 0, 2)
    for key, value in (("actors", 0), ("cpus", -1), ("gpus", -0.5)):
        with pytest.raises(ValueError, match=f"{key}: wanted at least"):
            RaySettings(**{key: value})  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray isn't installed: pip install tilewright[ray]")
def test_an_actor_killed_at_work_changes_nothing(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny", write_tiles(tmp_path / "tiles"), 5)
    broken = [tile(number, picture) for number, picture in enumerate(PICTURES)]
    broken[13] = dataclasses.replace(broken[13], image=b"no picture")
    write_store(tmp_path / "broken", broken)
    run_stage(STAGE, config(tmp_path, tmp_path / "vectors"))
    work = tmp_path / "work"
    work.mkdir()
    program = [sys.executable, str(Path(__file__).with_name("embed_on_ray.py")), str(tmp_path), str(work)]
    process = subprocess.Popen(program, env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        calls = _two_at_work(work, process)
        killed = int(calls[0].name.removeprefix("calls-"))
        os.kill(killed, signal.SIGKILL)
        (work / "go").touch()
        assert process.wait(600) == 0
    finally:
        process.kill()
    assert f"tile {broken[13].tile_id}: wanted an encoded image" in (work / "error").read_text()
    assert output_digests(work / "out") == output_digests(tmp_path / "vectors")
    lost = set(calls[0].read_text().split())
    done = [path for path in work.glob("calls-*") if path != calls[0]]
    assert lost <= {number for path in done for number in path.read_text().split()}, "embedded again by another actor"


def _two_at_work(work: Path, process: "subprocess.Popen[bytes]") -> list[Path]:
    """What two actors wrote as they began, once both have."""
    deadline = time.monotonic() + 600
    while len(found := sorted(path for path in work.glob("calls-*") if path.read_text().endswith("\n"))) < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    return found
