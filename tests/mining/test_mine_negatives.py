"""Mining: the walk down a ranking, what decides, what is counted, who is never a negative."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.stage import StageError, run_stage
from tilewright.data_gen.records import QAPair, Tile, TrainingExample, read_jsonl, write_jsonl
from tilewright.data_gen.splits import pages_of_split
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.data_gen.tiles import page_of
from tilewright.data_gen.verdicts import Verdict
from tilewright.mining.candidates import Searcher, blocks_of
from tilewright.mining.index import TileIndex
from tilewright.mining.judge import JUDGES, JudgeError
from tilewright.mining.mine_negatives import STAGE, Config
from tilewright.mining.mined import Looked, PairOutcome, rank_bin


@pytest.fixture
def config(corpus: Any, tmp_path: Path) -> Config:
    return Config(
        out=tmp_path / "negatives",
        mode="judged",
        top_k=6,
        negatives=2,
        short="keep",
        same_page="allow",
        pairs=corpus.root / "train.jsonl",
        pages=corpus.root / "pages.json",
        block=3,
        **corpus.inputs,
    )


def _examples(config: Config) -> list[TrainingExample]:
    return read_jsonl(config.out / "examples.jsonl", TrainingExample)


def test_judged_negatives_on_planted_tiles(config: Config, corpus: Any) -> None:
    """Whatever the ranking: the second tile of an even page states the fact, so it is never a negative."""
    everything = dataclasses.replace(config, top_k=40, negatives=15)
    counts = run_stage(STAGE, everything)["counts"]
    examples = _examples(everything)
    pairs = {pair.query_id: pair for pair in read_jsonl(config.pairs, QAPair)}
    train = pages_of_split(config.pages, "train")  # type: ignore[arg-type]
    for i, example in enumerate(examples):
        pair = pairs[example.query_id]
        assert example.positive_tile_id == pair.tile_id
        assert pair.tile_id not in example.negative_tile_ids + example.known_positive_tile_ids
        assert all(page_of(tile_id) in train for tile_id in example.negative_tile_ids)
        again = corpus.tile(i, 1)
        assert example.known_positive_tile_ids == ((again,) if i % 2 == 0 else ())
        assert (again in example.negative_tile_ids) == (i % 2 == 1)
    assert counts["false_negatives_found"] == 4 and counts["pairs"] == counts["examples"] == 8
    assert counts["kept_with_too_few_negatives"] == 4  # 16 training tiles less the positive and a known positive
    assert sum(counts["positive_rank"].values()) == 8
    assert counts["verdicts"]["CORRECT"] + counts["verdicts"]["CANNOT_ANSWER"] + counts["verdicts"]["WRONG"] == 8 * 15


def test_negatives_are_the_nearest_hardest_first(config: Config, corpus: Any) -> None:
    run_stage(STAGE, config)
    searcher = Searcher.open(**corpus.inputs)
    pairs = read_jsonl(config.pairs, QAPair)
    for pair, example in zip(pairs, _examples(config), strict=True):
        vector = searcher.encoder.encode_queries([pair.query])
        ranked = [tile_id for tile_id, _ in searcher.index.search(vector, len(searcher.index))[0]]
        places = [ranked.index(tile_id) for tile_id in example.negative_tile_ids]
        assert places == sorted(places) and len(places) == 2


def test_naive_mode_takes_the_nearest_whatever_they_say(config: Config) -> None:
    counts = run_stage(STAGE, dataclasses.replace(config, mode="naive", top_k=15, negatives=15))["counts"]
    examples = _examples(config)
    assert all(len(example.negative_tile_ids) == 15 for example in examples)
    assert all(example.positive_tile_id not in example.negative_tile_ids for example in examples)
    assert counts["not_judged"] == 8 * 15 and sum(counts["verdicts"].values()) == 0


def test_a_pair_without_an_answer_cannot_be_judged(config: Config, tmp_path: Path) -> None:
    pairs = read_jsonl(config.pairs, QAPair)
    write_jsonl(tmp_path / "pairs.jsonl", [pairs[0], dataclasses.replace(pairs[1], answer=" ?", aliases=("",))])
    unanswered = dataclasses.replace(config, pairs=tmp_path / "pairs.jsonl")
    with pytest.raises(InputError, match=f"{pairs[1].query_id}: wanted an answer with a letter or digit"):
        run_stage(STAGE, unanswered)
    assert run_stage(STAGE, dataclasses.replace(unanswered, mode="naive"))["counts"]["examples"] == 2


def test_in_batch_mode_mines_nothing(config: Config) -> None:
    counts = run_stage(STAGE, dataclasses.replace(config, mode="in_batch"))["counts"]
    assert counts == {
        "mode": "in_batch", "round": 1, "pairs": 8, "dropped_error": 0,
        "examples": 8, "negatives": 0, "known_positives": 0,
    }  # fmt: skip
    assert all(example.negative_tile_ids == () for example in _examples(config))


def test_same_page_can_be_left_out(config: Config) -> None:
    counts = run_stage(STAGE, dataclasses.replace(config, same_page="forbid", top_k=40, negatives=15))["counts"]
    assert counts["skipped_same_page"] == 8
    for example in _examples(config):
        page = page_of(example.positive_tile_id)
        assert page not in {page_of(tile_id) for tile_id in example.negative_tile_ids + example.known_positive_tile_ids}


def test_short_pairs_are_dropped_and_counted(config: Config) -> None:
    counts = run_stage(STAGE, dataclasses.replace(config, top_k=40, negatives=15, short="drop"))["counts"]
    assert counts["dropped_too_few_negatives"] == 4 and counts["examples"] == 4 == len(_examples(config))


def test_held_out_tiles_are_candidates_only_without_pages(config: Config) -> None:
    run_stage(STAGE, dataclasses.replace(config, pages=None, mode="naive", top_k=27, negatives=27))
    assert all(len(example.negative_tile_ids) == 27 for example in _examples(config))


def test_copies_of_the_positive_are_known_positives(config: Config, corpus: Any, tmp_path: Path) -> None:
    """A pair whose positive has a pixel-equal twin on another page: never a negative, also without a judge."""
    store = TileStore.open(corpus.root / "tiles")
    twin, original = corpus.tile(3, 1), store.get(corpus.tile(1, 0))
    tiles = [
        dataclasses.replace(tile, image=original.image, image_sha256=original.image_sha256)
        if tile.tile_id == twin
        else tile
        for tile in store
    ]
    write_store(tmp_path / "tiles", tiles)
    counts = run_stage(
        STAGE, dataclasses.replace(config, tiles=tmp_path / "tiles", mode="naive", top_k=40, negatives=15)
    )["counts"]
    assert _examples(config)[1].known_positive_tile_ids == (twin,)
    assert twin not in _examples(config)[1].negative_tile_ids and counts["copies_of_positive"] == 1


class Failing:
    """Fails, or mumbles, on every third call."""

    def __init__(self, reply: Verdict | None) -> None:
        self.calls, self.reply = 0, reply

    def judge(self, query: str, answers: Sequence[str], tile: Tile) -> Verdict:
        self.calls += 1
        if self.calls % 3:
            return Verdict.WRONG
        if self.reply is None:
            raise JudgeError("time-out")
        return self.reply


def test_pairs_whose_call_failed_are_counted_or_stop_the_stage(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(JUDGES, "grounded", lambda: Failing(None))
    with pytest.raises(StageError, match=r"items failed.*time-out"):
        run_stage(STAGE, config)
    tolerant = dataclasses.replace(config, max_error_share=0.9)
    counts = run_stage(STAGE, tolerant)["counts"]
    assert 0 < counts["dropped_error"] < 8 == counts["dropped_error"] + counts["examples"]
    assert counts["negatives"] == counts["verdicts"]["WRONG"] == 2 * counts["examples"]
    outcomes = read_jsonl(config.out / "outcomes.jsonl", PairOutcome)
    assert [one.outcome for one in outcomes].count("error") == counts["dropped_error"] and len(outcomes) == 8


def test_an_unparsed_reply_is_no_verdict(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many of them stop the stage as failed calls do; what was found out is kept."""
    monkeypatch.setitem(JUDGES, "grounded", lambda: Failing(Verdict.UNPARSED))
    with pytest.raises(StageError, match=r"no verdict for \d+ of \d+ judged candidates.*max_error_share"):
        run_stage(STAGE, config)
    monkeypatch.setitem(JUDGES, "grounded", lambda: Failing(None))  # isn't asked again
    counts = run_stage(STAGE, dataclasses.replace(config, max_error_share=0.9))["counts"]
    assert counts["skipped_unparsed"] > 0 == counts["false_negatives_found"] == counts["dropped_error"]
    assert counts["negatives"] == counts["verdicts"]["WRONG"] == 16
    unparsed = [one for one in read_jsonl(config.out / "verdicts.jsonl", Looked) if one.outcome == "UNPARSED"]
    examples = {example.query_id: example for example in _examples(config)}
    for one in unparsed:
        example = examples[one.query_id]
        assert one.tile_id not in example.negative_tile_ids + example.known_positive_tile_ids


def test_a_failed_search_is_a_stage_error(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(self: TileIndex, queries: Any, k: int, pages: Any) -> Any:
        raise RuntimeError("connection refused")

    monkeypatch.setattr(TileIndex, "search", down)
    with pytest.raises(StageError, match="search failed"):
        run_stage(STAGE, config)
    monkeypatch.setattr(TileIndex, "search", lambda self, queries, k, pages: [() for _ in queries])
    with pytest.raises(StageError, match="hits"):
        run_stage(STAGE, config)


SLOW_PROGRAM = """
import json, sys, time
from pathlib import Path
from tilewright.configs.stage import run_stage
from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.mining.judge import JUDGES
from tilewright.mining.mine_negatives import STAGE, Config

class Slow(GroundedJudge):
    def judge(self, *arguments):
        time.sleep(0.05)
        return super().judge(*arguments)

JUDGES["grounded"] = Slow
paths, values = json.loads(sys.argv[1])
run_stage(STAGE, Config(**{name: Path(path) for name, path in paths.items()}, **values))
"""


def test_killed_and_resumed_the_bytes_are_the_same(config: Config, tmp_path: Path) -> None:
    """Kill -9 in the middle, under another hash seed, then go on: equal to one go."""
    whole = run_stage(STAGE, config)
    killed = dataclasses.replace(config, out=tmp_path / "killed")
    values = {field.name: getattr(killed, field.name) for field in dataclasses.fields(killed)}
    paths = {name: str(value) for name, value in values.items() if isinstance(value, Path)}
    others = {name: value for name, value in values.items() if name not in (*paths, "prompts")}
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_PROGRAM, json.dumps([paths, others])], env=os.environ | {"PYTHONHASHSEED": "11"}
    )
    journal = tmp_path / "killed.partial/.journal.jsonl"
    deadline = time.monotonic() + 300
    while not journal.exists() or not journal.stat().st_size:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 0 < len(journal.read_bytes().splitlines()) < 8
    with journal.open("ab") as file:
        file.write(b'{"key": "q-torn", "val')  # a line that the kill left torn
    resumed = run_stage(STAGE, killed)
    assert resumed["counts"] == whole["counts"]
    assert output_digests(killed.out) == output_digests(config.out)


def test_an_index_of_another_encoder_is_refused(config: Config, corpus: Any, tmp_path: Path) -> None:
    index = TileIndex.load(corpus.root / "index")
    index.entry = dataclasses.replace(index.entry, encoder_hash="0" * 64)
    index.save(tmp_path / "index")
    with pytest.raises(InputError, match="encoder"):
        run_stage(STAGE, dataclasses.replace(config, index=tmp_path / "index"))


def test_empty_and_foreign_pairs_are_refused(config: Config, corpus: Any, tmp_path: Path) -> None:
    pairs = read_jsonl(config.pairs, QAPair)
    stranger = dataclasses.replace(pairs[0], page_id="f" * 16, tile_id="f" * 16 + "-0000-00")
    held_out = read_jsonl(corpus.root / "validation.jsonl", QAPair)
    cases: list[tuple[list[QAPair], Path | None, str]] = [
        ([], config.pages, "at least one"),
        ([pairs[0], pairs[0]], config.pages, "twice"),
        ([stranger], None, "not in the index"),
        (held_out, config.pages, "not a train page"),
    ]
    for number, (rows, pages, message) in enumerate(cases):
        write_jsonl(tmp_path / f"{number}.jsonl", rows)
        broken = dataclasses.replace(
            config, pairs=tmp_path / f"{number}.jsonl", pages=pages, out=tmp_path / f"out{number}"
        )
        with pytest.raises(InputError, match=message):
            run_stage(STAGE, broken)


def test_tiles_of_another_corpus_and_broken_splits_are_refused(config: Config, corpus: Any, tmp_path: Path) -> None:
    write_store(tmp_path / "tiles", list(TileStore.open(corpus.root / "tiles"))[:-1])
    with pytest.raises(InputError, match="different corpora"):
        run_stage(STAGE, dataclasses.replace(config, tiles=tmp_path / "tiles"))
    (tmp_path / "pages.json").write_text('{"validation": []}')
    with pytest.raises(InputError, match="'train'"):
        run_stage(STAGE, dataclasses.replace(config, pages=tmp_path / "pages.json", out=tmp_path / "other"))


@given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 29))
def test_blocks_are_fixed_by_the_whole_list(count: int, size: int, left: int) -> None:
    pairs = [QAPair(f"q{i}", "?", "a", (), "t", "p", "", "", "", "x") for i in range(count)]
    whole = list(blocks_of(pairs, size, {pair.query_id for pair in pairs}))
    assert [pair for block in whole for pair in block] == pairs
    todo = {pair.query_id for pair in pairs[left:]}
    assert list(blocks_of(pairs, size, todo)) == [b for b in whole if todo & {pair.query_id for pair in b}]


def test_rank_bins() -> None:
    assert [rank_bin(rank, 20) for rank in (1, 2, 3, 4, 10, 11, 20, None)] == [
        "01", "02-03", "02-03", "04-10", "04-10", "11-20", "11-20", "not in top 20",
    ]  # fmt: skip


@pytest.mark.parametrize("change", [{"negatives": 0}, {"negatives": 7}, {"block": 0}])
def test_bad_settings_are_refused(config: Config, change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="wanted"):
        dataclasses.replace(config, **change)  # type: ignore[arg-type]
