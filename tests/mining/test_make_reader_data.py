"""Reader data: gold positions uniform, nothing shown that answers by accident, splits apart, all by digest."""

import dataclasses
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.train.stage_process import write_yaml

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.journal import Journal
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import QAPair, ReaderExample, TrainingExample, read_jsonl, write_jsonl
from tilewright.data_gen.splits import pages_of_split
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of
from tilewright.mining.candidates import Searcher
from tilewright.mining.make_reader_data import (
    STAGE,
    Config,
    Row,
    assemble,
    choose,
    draw,
    make_reader_data,
    pick_distractors,
)
from tilewright.mining.reader_report import chi_square
from tilewright.train.compress import compress
from tilewright.train.pixels import PixelPolicy, patchify

CHI_SQUARE_999 = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52}  # 0.1 % points by degrees of freedom


@pytest.fixture
def config(corpus: Any, tmp_path: Path) -> Config:
    examples = [TrainingExample(pair.query_id, pair.query, pair.tile_id, ()) for pair in _pairs(corpus, "train")]
    write_jsonl(tmp_path / "examples.jsonl", examples)
    return Config(
        out=tmp_path / "reader_data",
        k_weights=(1.0, 1.0, 1.0),
        absent_share=0.25,
        compressions=(1.0, 4.0),
        max_train=None,
        max_validation=None,
        seed=7,
        pairs=corpus.root / "train.jsonl",
        validation=corpus.root / "validation.jsonl",
        negatives=tmp_path / "examples.jsonl",
        pages=corpus.root / "pages.json",
        block=3,
        **corpus.inputs,
    )


def _pairs(corpus: Any, split: str) -> list[QAPair]:
    return read_jsonl(corpus.root / f"{split}.jsonl", QAPair)


def _rows(config: Config, split: str) -> list[ReaderExample]:
    return read_jsonl(config.out / f"{split}.jsonl", ReaderExample)


@pytest.mark.parametrize("k", [2, 3, 4, 6])
def test_gold_positions_are_uniform(config: Config, k: int) -> None:
    """2,000 rows of k tiles: the gold tile's position passes a chi-square test at 0.1 %; so does each other tile's."""
    gold: Counter[int] = Counter()
    nearest: Counter[int] = Counter()
    for i in range(2000):
        pair = QAPair(f"q{i}", "?", "a", (), f"gold{i}", "p", "", "", "", "x")
        example = assemble(pair, Row(k, False, 1.0), [f"t{i}-{j}" for j in range(8)], config)
        assert example is not None and example.gold_position is not None
        assert example.tile_ids[example.gold_position] == pair.tile_id and len(example.tile_ids) == k
        gold[example.gold_position] += 1
        nearest[example.tile_ids.index(f"t{i}-0")] += 1
    for counts in (gold, nearest):
        assert chi_square([counts[place] for place in range(k)]) < CHI_SQUARE_999[k - 1]


def test_choices_follow_their_weights_and_are_independent(config: Config) -> None:
    config = dataclasses.replace(config, k_weights=(3.0, 0.0, 1.0), absent_share=0.3)
    rows = [choose(f"q{i}", config) for i in range(4000)]
    sizes, absent = Counter(row.k for row in rows), sum(row.gold_absent for row in rows)
    assert sizes.keys() == {1, 3} and sizes[1] / 4000 == pytest.approx(0.75, abs=0.03)
    assert absent / 4000 == pytest.approx(0.3, abs=0.03)
    pairs = Counter((row.k, row.gold_absent, row.compression) for row in rows)
    assert pairs[3, True, 4.0] / 4000 == pytest.approx(0.25 * 0.3 * 0.5, abs=0.015)
    assert rows == [choose(f"q{i}", config) for i in range(4000)]
    assert rows != [choose(f"q{i}", dataclasses.replace(config, seed=8)) for i in range(4000)]


@given(
    st.lists(st.floats(0, 5), min_size=1, max_size=6).filter(lambda w: sum(w) > 0.1), st.floats(0, 1, exclude_max=True)
)
def test_draw_never_takes_what_has_no_weight(weights: list[float], at: float) -> None:
    chosen = draw(range(len(weights)), weights, at)
    assert weights[chosen] > 0


@given(
    st.lists(st.sampled_from(["CANNOT_ANSWER", "WRONG", "CORRECT", "UNPARSED", "ERROR"]), max_size=9), st.integers(0, 5)
)
def test_only_tiles_found_unable_to_answer_are_shown(outcomes: list[str], wanted: int) -> None:
    ranked = [f"t{i}" for i in range(len(outcomes))]
    said = dict(zip(ranked, outcomes, strict=True))
    shown, passed = pick_distractors(ranked, wanted, said.__getitem__)
    assert shown == [tile_id for tile_id in ranked if said[tile_id] in ("CANNOT_ANSWER", "WRONG")][:wanted]
    assert all(said[tile_id] == why in ("CORRECT", "UNPARSED", "ERROR") for tile_id, why in passed)


def test_rows_of_planted_pages(config: Config, corpus: Any) -> None:
    counts = run_stage(STAGE, config)["counts"]
    for split, first in (("train", 0), ("validation", 8)):
        pages = pages_of_split(config.pages, split)
        rows, pairs = _rows(config, split), _pairs(corpus, split)
        assert [row.query_id for row in rows] == [pair.query_id for pair in pairs]
        for i, (row, pair) in enumerate(zip(rows, pairs, strict=True), start=first):
            choice = choose(pair.query_id, config)
            assert len(set(row.tile_ids)) == len(row.tile_ids) == choice.k
            assert all(page_of(tile_id) in pages for tile_id in row.tile_ids)
            assert (row.gold_position is None) == choice.gold_absent == (pair.tile_id not in row.tile_ids)
            assert row.answer == ("cannot answer" if choice.gold_absent else pair.answer)
            if row.gold_position is not None:
                assert row.tile_ids[row.gold_position] == pair.tile_id
            if i % 2 == 0:  # the page's second tile states the fact too: never a distractor
                assert corpus.tile(i, 1) not in row.tile_ids
        assert counts[split]["examples"] == len(pairs)
        assert sum(counts[split]["natural_rank_of_gold"].values()) == len(pairs)
    train = {page_of(tile_id) for row in _rows(config, "train") for tile_id in row.tile_ids}
    assert not train & {page_of(tile_id) for row in _rows(config, "validation") for tile_id in row.tile_ids}


def test_known_positives_are_never_distractors(config: Config, corpus: Any, tmp_path: Path) -> None:
    """Without a judge, what mining knows is enough: every training tile but four is a known positive."""
    pairs = _pairs(corpus, "train")
    others = [corpus.tile(page, row) for page in range(8) for row in range(2)]
    allowed = {corpus.tile(page, 1) for page in (1, 3, 5, 7)}
    known = tuple(tile_id for tile_id in others if tile_id not in allowed)
    write_jsonl(
        tmp_path / "known.jsonl",
        [TrainingExample(p.query_id, p.query, p.tile_id, (), tuple(t for t in known if t != p.tile_id)) for p in pairs],
    )
    counts = run_stage(
        STAGE,
        dataclasses.replace(config, negatives=tmp_path / "known.jsonl", judge="none", absent_share=0.0, depth=16),
    )["counts"]
    for row, pair in zip(_rows(config, "train"), pairs, strict=True):
        assert set(row.tile_ids) <= allowed | {pair.tile_id}
    assert counts["train"]["distractors_passed_over"].keys() == {"KNOWN_POSITIVE"}
    assert counts["train"]["gold_absent"] == 0


def test_all_gold_absent_and_all_alone(config: Config) -> None:
    absent = dataclasses.replace(config, absent_share=1.0, k_weights=(1.0,))
    counts = run_stage(STAGE, absent)["counts"]
    assert counts["train"]["gold_absent"] == 8 and counts["train"]["gold_added"] == 0
    assert {row.answer for row in _rows(absent, "train")} == {"cannot answer"}
    alone = dataclasses.replace(config, absent_share=0.0, k_weights=(1.0,), out=config.out.with_name("alone"))
    counts = run_stage(STAGE, alone)["counts"]
    assert all(row.gold_position == 0 and len(row.tile_ids) == 1 for row in _rows(alone, "train"))
    assert counts["train"]["gold_added"] == 8 - counts["train"]["natural_rank_of_gold"].get("01", 0)


def test_a_row_without_any_tile_is_dropped_and_counted(config: Config, tmp_path: Path) -> None:
    """One page of two tiles, the second a known positive: a row without its gold tile has nothing to show."""
    pages = json.loads(config.pages.read_text())
    first = pages["train"][0]
    (tmp_path / "pages.json").write_text(json.dumps({"train": [first], "validation": pages["validation"]}))
    write_jsonl(tmp_path / "one.jsonl", [pair for pair in read_jsonl(config.pairs, QAPair) if pair.page_id == first])
    lonely = dataclasses.replace(config, pages=tmp_path / "pages.json", pairs=tmp_path / "one.jsonl", absent_share=1.0)
    counts = run_stage(STAGE, lonely)["counts"]
    assert counts["train"]["dropped_no_tile_to_show"] == 1 and _rows(lonely, "train") == []


def test_sampling_depends_on_ids_only(config: Config, corpus: Any, tmp_path: Path) -> None:
    some = dataclasses.replace(config, max_train=3, max_validation=2)
    run_stage(STAGE, some)
    chosen = _rows(some, "train")
    assert len(chosen) == 3 and len(_rows(some, "validation")) == 2
    write_jsonl(tmp_path / "reversed.jsonl", reversed(_pairs(corpus, "train")))
    turned = dataclasses.replace(some, pairs=tmp_path / "reversed.jsonl", out=tmp_path / "turned")
    run_stage(STAGE, turned)
    assert {row.query_id for row in _rows(turned, "train")} == {row.query_id for row in chosen}


def test_resumed_from_any_journal_the_bytes_are_the_same(config: Config, corpus: Any, tmp_path: Path) -> None:
    """A journal cut after n items, as a kill leaves it, leads to the same files, for every n."""
    whole = run_stage(STAGE, config)
    inputs = corpus.inputs | {name: getattr(config, name) for name in ("pairs", "validation", "negatives", "pages")}
    (tmp_path / "first").mkdir()
    make_reader_data(config, inputs, tmp_path / "first")
    lines = (tmp_path / "first/.journal.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 12
    for kept in (0, 1, 5, 11, 12):
        folder = tmp_path / f"cut{kept}"
        folder.mkdir()
        (folder / ".journal.jsonl").write_bytes(b"".join(lines[:kept]) + b'{"key": "q')
        assert make_reader_data(config, inputs, folder) == whole["counts"]
        assert output_digests(folder) == whole["outputs"]
        with Journal(folder / ".journal.jsonl") as journal:
            assert len(journal) == 12


@pytest.mark.slow
def test_another_process_with_another_hash_seed_writes_the_same_bytes(config: Config) -> None:
    hash_seed = "4" if os.environ.get("PYTHONHASHSEED") == "3" else "3"
    run_stage(STAGE, config)
    other = dataclasses.replace(config, out=config.out.with_name("other"))
    command = [sys.executable, "-m", "tilewright.mining.make_reader_data", str(write_yaml(other))]
    subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": hash_seed}, check=True, capture_output=True)
    for name in ("train.jsonl", "validation.jsonl", "report.json"):
        assert (other.out / name).read_bytes() == (config.out / name).read_bytes()


def test_the_report_counts_what_was_written(config: Config, corpus: Any) -> None:
    """Positions, tiles and tokens of report.json once more from the rows and the tiles' own sizes."""
    run_stage(STAGE, dataclasses.replace(config, max_pixels=16 * 1024))
    report = json.loads((config.out / "report.json").read_text())
    assert report["compression_per_row"] == "mixed"
    store = TileStore.open(config.tiles)
    for split in ("train", "validation"):
        rows, found = _rows(config, split), report[split]
        assert found["examples"] == len(rows) == sum(found["tiles_shown"].values())
        assert found["compression"] == {
            f"{c:g}": n for c, n in sorted(Counter(row.compression for row in rows).items())
        }
        for k in {len(row.tile_ids) for row in rows if row.gold_position is not None}:
            places = Counter(row.gold_position for row in rows if len(row.tile_ids) == k)
            assert found["gold_position"]["by_tiles_shown"][f"of {k}"]["counts"] == [places[i] for i in range(k)]
        images = [compress(store.image(i), row.compression) for row in rows for i in row.tile_ids]
        policy = PixelPolicy(4096, 16 * 1024)
        tokens = sum(len(patchify([image], policy)[0]) // 4 for image in images)
        assert found["visual_tokens"]["sum"] == tokens
        small = sum(image.width * image.height < 48 * 48 for image in images)  # 32 px a side: one token, made four
        assert found["visual_tokens"]["images_enlarged_to_min_pixels"] == small > 0


def test_the_gold_tile_s_natural_rank_is_recorded(config: Config, corpus: Any) -> None:
    counts = run_stage(STAGE, config)["counts"]
    pages = pages_of_split(config.pages, "train")
    searcher = Searcher.open(config.index, config.checkpoint, config.tiles)
    pairs = _pairs(corpus, "train")
    everything = searcher.search(pairs, len(searcher.index), pages)
    ranks = [row.gold_rank for row in _rows(config, "train")]
    assert ranks == [found.positive_rank for found in everything] and len(set(ranks)) > 1
    added = sum(
        row.gold_position is not None and (row.gold_rank or 99) > len(row.tile_ids) for row in _rows(config, "train")
    )
    assert counts["train"]["gold_added"] == added


def test_compressions_follow_their_weights(config: Config) -> None:
    mixed = dataclasses.replace(config, compressions=(1.0, 2.0, 4.0), compression_weights=(1.0, 0.0, 3.0))
    drawn = Counter(choose(f"q{i}", mixed).compression for i in range(2000))
    assert drawn.keys() == {1.0, 4.0} and drawn[4.0] / 2000 == pytest.approx(0.75, abs=0.04)
    fixed = dataclasses.replace(config, compressions=(3.0,))
    assert {choose(f"q{i}", fixed).compression for i in range(50)} == {3.0}


def test_splits_that_overlap_or_lack_a_page_are_refused(config: Config, tmp_path: Path) -> None:
    pages = json.loads(config.pages.read_text())
    overlap = {"train": pages["train"], "validation": pages["train"][:1] + pages["validation"]}
    lacking = {"train": pages["train"][1:], "validation": pages["validation"]}
    for name, splits, message in (
        ("overlap", overlap, "are in train and validation"),
        ("lacking", lacking, "no train"),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(splits))
        with pytest.raises(InputError, match=message):
            run_stage(STAGE, dataclasses.replace(config, pages=tmp_path / f"{name}.json", out=tmp_path / name))


def test_no_training_pairs_is_an_error_no_validation_pairs_is_not(config: Config, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "none.jsonl", [])
    with pytest.raises(InputError, match="at least one"):
        run_stage(STAGE, dataclasses.replace(config, pairs=tmp_path / "none.jsonl"))
    without = dataclasses.replace(config, validation=tmp_path / "none.jsonl", out=tmp_path / "without")
    assert run_stage(STAGE, without)["counts"]["validation"]["examples"] == 0
    with pytest.raises(InputError, match=r"query_id .* stands in .*train\.jsonl too"):
        run_stage(STAGE, dataclasses.replace(config, validation=config.pairs))


@pytest.mark.parametrize(
    "change",
    [
        *({"k_weights": ()}, {"k_weights": (0.0,)}, {"absent_share": 1.5}, {"compressions": (0.5,)}, {"depth": 2}),
        *({"compression_weights": (1.0,)}, {"compression_weights": (0.0, 0.0)}, {"max_pixels": 0}),
    ],
)
def test_bad_settings_are_refused(config: Config, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="wanted"):
        dataclasses.replace(config, **change)
