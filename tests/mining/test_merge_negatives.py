"""Two processes that mine disjoint shards give the files of one; what isn't a whole set of parts is refused."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.mining.planted import Planted, with_pairs
from tests.train.stage_process import write_yaml

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import TrainingExample, read_jsonl
from tilewright.mining.merge_negatives import STAGE as MERGE
from tilewright.mining.merge_negatives import Config as Merge
from tilewright.mining.mine_negatives import STAGE, Config


@pytest.fixture
def config(planted: Planted, tmp_path: Path) -> Config:
    return Config(
        out=tmp_path / "whole", mode="judged", top_k=20, negatives=2, short="keep", same_page="allow", block=2,
        review_pairs=4, seed=3, **planted.inputs,
    )  # fmt: skip


def part(config: Config, shard: str, **changes: Any) -> Config:
    name = f"{shard.replace('/', '_of_')}{len(changes)}"
    return dataclasses.replace(config, out=config.out.with_name(name), shard=shard, **changes)


def merged(config: Config, *parts: Config, **changes: Any) -> Merge:
    inputs: dict[str, Any] = {"pairs": config.pairs, "tiles": config.tiles} | changes
    return Merge(config.out.with_name(f"merged_{len(parts)}{len(changes)}"), tuple(one.out for one in parts), **inputs)


@pytest.mark.slow
def test_two_processes_on_disjoint_shards_equal_one(config: Config) -> None:
    parts = [part(config, "0/2"), part(config, "1/2")]
    processes = [
        subprocess.Popen([sys.executable, "-m", "tilewright.mining.mine_negatives", str(write_yaml(one))])
        for one in parts
    ]
    whole = run_stage(STAGE, config)
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    together = merged(config, *reversed(parts))
    counts = run_stage(MERGE, together)["counts"]
    assert output_digests(together.out) == output_digests(config.out) and counts == whole["counts"]
    files = {"examples.jsonl", "outcomes.jsonl", "verdicts.jsonl", "report.json", "review.html"}
    assert set(output_digests(together.out)) == files
    shares = [read_jsonl(one.out / "examples.jsonl", TrainingExample) for one in parts]
    assert [len(share) for share in shares] == [4, 2]  # blocks of two pairs in turn


def test_a_part_without_pairs_is_a_part(config: Config) -> None:
    parts = [part(config, f"{n}/4", review_pairs=0, mode="naive") for n in range(4)]
    assert [run_stage(STAGE, one)["counts"]["examples"] for one in parts] == [2, 2, 2, 0]
    together = merged(config, *parts, tiles=None)
    run_stage(MERGE, together)
    whole = dataclasses.replace(config, review_pairs=0, mode="naive")
    assert run_stage(STAGE, whole)["outputs"] == output_digests(together.out)


def test_what_is_no_whole_set_of_parts_is_refused(config: Config, planted: Planted, tmp_path: Path) -> None:
    halves = [part(config, f"{n}/2", review_pairs=0) for n in range(2)]
    other = part(config, "1/2", review_pairs=0, negatives=1)
    for one in (*halves, other):
        run_stage(STAGE, one)
    fewer = with_pairs(planted, tmp_path, list(planted.pairs[:5]))["pairs"]
    cases: list[tuple[Merge, str]] = [
        (merged(config), "wanted the folders"),
        (merged(config, halves[0]), "each of the shards"),
        (merged(config, halves[0], halves[0]), "each of the shards"),
        (merged(config, halves[0], other), "negatives is 1 there, 2 here"),
        (merged(config, *halves, pairs=fewer), "found others or another number"),
        (merged(config, halves[0], dataclasses.replace(config, out=planted.root / "index")), "finished folder"),
    ]
    for number, (wrong, message) in enumerate(cases):
        with pytest.raises(InputError, match=message):
            run_stage(MERGE, dataclasses.replace(wrong, out=tmp_path / f"wrong{number}"))
    file = halves[0].out / "examples.jsonl"
    file.write_text(file.read_text().replace("q-aland", "q-island"))
    with pytest.raises(InputError, match="changed since"):
        run_stage(MERGE, dataclasses.replace(merged(config, *halves), out=tmp_path / "changed"))


def test_pictures_are_needed_for_a_review_page_only(config: Config) -> None:
    parts = [part(config, f"{n}/2") for n in range(2)]
    for one in parts:
        run_stage(STAGE, one)
    with pytest.raises(InputError, match=r"tiles.*review"):
        run_stage(MERGE, merged(config, *parts, tiles=None))
