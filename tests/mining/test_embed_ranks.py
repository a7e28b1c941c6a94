"""Ranks, parts and kills: the bytes of one run on one process, and nothing embedded twice."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.mining.embed_corpus import PICTURES, array, config, write_tiles, write_tiny
from tests.mining.embed_process import embed, embed_and_die, start
from tests.train.stage_process import write_yaml

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.items import JOURNAL
from tilewright.configs.stage import read_manifest, run_stage
from tilewright.configs.status import status_of
from tilewright.mining import merge_vectors
from tilewright.mining.embed_tiles import STAGE

torch.set_num_threads(1)
EMBEDDED = "embedded.txt"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiles/ and tiny/embedder/."""
    folder = tmp_path_factory.mktemp("ranks")
    write_tiny(folder / "tiny", write_tiles(folder / "tiles"), 5)
    return folder


@pytest.fixture(scope="module")
def vectors(root: Path) -> Path:
    run_stage(STAGE, config(root, root / "vectors"))
    return root / "vectors"


def _same(found: Path, wanted: Path) -> None:
    assert output_digests(found) == output_digests(wanted)
    counts = [read_manifest(folder) for folder in (found, wanted)]
    assert counts[0] is not None and counts[1] is not None and counts[0]["counts"] == counts[1]["counts"]


def _embedded(folder: Path) -> int:
    path = folder / EMBEDDED
    return sum(map(int, path.read_text().split())) if path.exists() else 0


def _journalled(partial: Path) -> int:
    return (partial / JOURNAL).read_bytes().count(b"\n")


def test_two_ranks_write_the_bytes_of_one(root: Path, vectors: Path, tmp_path: Path) -> None:
    settings = config(root, tmp_path / "out")
    processes = [start(embed, settings, tmp_path / f"rank{rank}.txt", rank, 2) for rank in (1, 0)]
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
    _same(settings.out, vectors)
    shares = [sum(map(int, (tmp_path / f"rank{rank}.txt").read_text().split())) for rank in (0, 1)]
    assert sum(shares) == len(set(PICTURES)) and min(shares) > 0


def test_parts_merged_are_the_bytes_of_one_run(root: Path, vectors: Path, tmp_path: Path) -> None:
    parts = [config(root, tmp_path / f"part{number}", shard=f"{number}/3") for number in range(3)]
    counts = [run_stage(STAGE, part)["counts"] for part in parts]
    assert sum(each["embedded"] for each in counts) == len(set(PICTURES))
    merge = merge_vectors.Config(tmp_path / "merged", (parts[2].out, parts[0].out, parts[1].out))
    run_stage(merge_vectors.STAGE, merge)
    _same(merge.out, vectors)


def test_more_parts_than_blocks_and_known_vectors(root: Path, vectors: Path, tmp_path: Path) -> None:
    """Parts without a tile; and parts whose vectors are all taken over."""
    for name, number, changes in (("few", 4, {"block_tiles": 12}), ("known", 3, {"reuse": (vectors,)})):
        parts = [config(root, tmp_path / f"{name}{i}", shard=f"{i}/{number}", **changes) for i in range(number)]
        counts = [run_stage(STAGE, part)["counts"] for part in parts]
        assert (min(each["tiles"] for each in counts) == 0) == (name == "few")
        whole = config(root, tmp_path / name, **changes)
        run_stage(STAGE, whole)
        merge = merge_vectors.Config(tmp_path / f"{name}_merged", tuple(part.out for part in parts))
        run_stage(merge_vectors.STAGE, merge)
        _same(merge.out, whole.out)
    assert (array(whole.out) == array(vectors)).all()


def test_parts_that_do_not_belong_together(root: Path, tmp_path: Path) -> None:
    folders = []
    for shard, name, changes in (
        ("0/2", "a", {}),
        ("1/2", "b", {}),
        ("1/2", "other", {"batch_tokens": 30}),
        (None, "whole", {}),
    ):
        folders.append(tmp_path / name)
        run_stage(STAGE, config(root, folders[-1], shard=shard, **changes))
    first, second, other, whole = folders
    twice = tmp_path / "twice"
    shutil.copytree(first, twice)
    manifest = json.loads((twice / "manifest.json").read_text())
    manifest["request"]["config"]["shard"] = "1/2"
    (twice / "manifest.json").write_text(json.dumps(manifest))
    for number, (parts, message) in enumerate(
        [
            ((), "found none"),
            ((first,), r"wanted each of the shards \['0/1'\]"),
            ((first, first), "once, found"),
            ((first, other), r"config\.batch_tokens is 30 there, 24 here"),
            ((first, whole), "wanted each of the shards"),
            ((first, root / "tiny"), "wanted the finished folder of embed_tiles"),
            ((first, twice), "or is in two parts"),
        ]
    ):
        with pytest.raises(InputError, match=message):
            run_stage(merge_vectors.STAGE, merge_vectors.Config(tmp_path / f"merged{number}", parts))
    run_stage(merge_vectors.STAGE, merge_vectors.Config(tmp_path / "merged", (first, second)))


@pytest.mark.parametrize(
    ("after", "assembling"),
    [
        (13, False),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((6, False), (19, True), (24, True), (29, True))),
    ],
)
def test_killed_at_any_time_and_run_again(
    root: Path, vectors: Path, tmp_path: Path, after: int, assembling: bool
) -> None:
    settings = config(root, tmp_path / "out")
    process = start(embed_and_die, settings, tmp_path / EMBEDDED, after)
    process.join(300)
    assert process.exitcode == -signal.SIGKILL
    partial = tmp_path / "out.partial"
    finished = len(list((partial / ".blocks").glob("*-*.npy")))
    whole = (partial / ".embedded").exists()
    before = _embedded(tmp_path)
    assert status_of(tmp_path)[0].why.startswith(f"{_journalled(partial)} items journalled")
    assert (
        _journalled(partial) >= len(set(PICTURES)) // 4 if whole else _journalled(partial) in (finished - 1, finished)
    )
    process = start(embed, settings, tmp_path / EMBEDDED)
    process.join(300)
    assert process.exitcode == 0
    assert _embedded(tmp_path) - before == (0 if whole else len(set(PICTURES)) - 4 * finished)
    assert whole == assembling, "killed while embedding, or while files are put together"
    _same(settings.out, vectors)


@pytest.mark.slow
def test_a_killed_run_goes_on_with_another_number_of_ranks(root: Path, vectors: Path, tmp_path: Path) -> None:
    settings = config(root, tmp_path / "out")
    process = start(embed_and_die, settings, tmp_path / EMBEDDED, 8)
    process.join(300)
    finished = len(list((tmp_path / "out.partial" / ".blocks").glob("*-*.npy")))
    assert process.exitcode == -signal.SIGKILL and 0 < finished < 6
    (tmp_path / EMBEDDED).unlink()
    processes = [start(embed, settings, tmp_path / EMBEDDED, rank, 3) for rank in range(3)]
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
    assert _embedded(tmp_path) == len(set(PICTURES)) - 4 * finished
    _same(settings.out, vectors)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
def test_under_a_launcher(launcher: str, root: Path, vectors: Path, tmp_path: Path) -> None:
    command = {
        "torchrun": ["torchrun", "--standalone", "--nproc_per_node=2"],
        "accelerate": ["accelerate", "launch", "--cpu", "--num_processes=2", "--main_process_port=29641"],
    }[launcher]
    settings = config(root, tmp_path / "out")
    program = [str(Path(sys.executable).parent / command[0]), *command[1:], "-m", "tilewright.mining.embed_tiles"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([*program, str(write_yaml(settings))], env=environment, check=True, timeout=600)
    _same(settings.out, vectors)
