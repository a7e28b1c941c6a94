"""Where questions come from: benchmarks' files, pictures beside them, redirects; the kind of a tile's evidence."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.find_positives import Positives
from tilewright.data_gen.records import QAPair, read_jsonl, write_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.urls import page_id
from tilewright.eval.benchmarks.question import EvalQuestion
from tilewright.eval.evaluate import STAGE
from tilewright.eval.parts import Question
from tilewright.eval.questions import benchmark_questions, evidence_kind, widened
from tilewright.eval.retrievers.texts import TileDomTexts

URL = "https://example.org/wiki/Warsaw"


def question(query_id: str, *urls: str, image: str = "") -> EvalQuestion:
    return EvalQuestion(query_id, "Warsaw river town?", "1700", (), urls, "nq", image=image)


def test_redirects_widen_what_counts_and_outside_stays_a_miss(tmp_path: Path) -> None:
    (tmp_path / "redirects.json").write_text('{"https://example.org/wiki/Varsovie": "https://example.org/wiki/Warsaw"}')
    write_jsonl(
        tmp_path / "questions.jsonl", [question("q0", "https://example.org/wiki/Varsovie"), question("q1", URL + "x")]
    )
    corpus = {page_id(URL): URL}
    through, outside = widened(benchmark_questions(tmp_path), corpus, tmp_path / "redirects.json")
    assert page_id(URL) in through.gold_pages and page_id(URL) not in outside.gold_pages and outside.gold_pages
    plain, _ = widened(benchmark_questions(tmp_path), corpus, None)
    assert page_id(URL) not in plain.gold_pages


def test_further_positives_count_as_found_and_every_question_must_be_known(world: Any, tmp_path: Path) -> None:
    pairs = read_jsonl(world.paths["pairs"], QAPair)
    tile_ids = TileStore.open(world.paths["tiles"]).tile_ids
    further = {pair.query_id: next(one for one in tile_ids if one[:16] != pair.page_id) for pair in pairs}
    found = [Positives(pair.query_id, (further[pair.query_id],), ()) for pair in pairs]
    write_jsonl(tmp_path / "positives.jsonl", found)
    changes = {"compare": (), "readers": {}, "checkpoints": {}, "reader_checkpoints": {}}
    changes |= {"rows": ("bm25", "texts"), "retrievers": {"texts": TileDomTexts("tile_texts")}}
    config = world.config(tmp_path / "out", positives=tmp_path / "positives.jsonl", **changes)
    run_stage(STAGE, config)
    qrels = [line.split() for line in (config.out / "qrels_tiles.trec").read_text().splitlines()]
    right = {pair.query_id: {pair.tile_id, further[pair.query_id]} for pair in pairs}
    assert {(query, tile) for query, _, tile, *_ in qrels} == {
        (q, tile) for q, tiles in right.items() for tile in tiles
    }
    metrics = json.loads((config.out / "metrics.json").read_text())
    assert metrics["chance"]["tile"]["recall@1"] == pytest.approx(2 / len(tile_ids)), "two tiles are right"
    assert metrics["rows"]["texts"]["tile"] == metrics["rows"]["bm25"]["tile"], "the same texts by the same engine"
    write_jsonl(tmp_path / "positives.jsonl", found[1:])
    with pytest.raises(InputError, match=f"{pairs[0].query_id}: wanted the known positives of every question"):
        run_stage(STAGE, dataclasses.replace(config, out=tmp_path / "other"))


def test_a_benchmark_is_evaluated_and_says_how_many_have_gold(world: Any, tmp_path: Path) -> None:
    asked = [question("q0", "https://www.example.org/wiki/Elsewhere"), question("q1"), question("q2", URL)]
    write_jsonl(tmp_path / "questions.jsonl", asked)
    config = world.config(
        tmp_path / "out", rows=("bm25",), compare=(), readers={}, checkpoints={}, reader_checkpoints={},
        pairs=None, questions=tmp_path / "questions.jsonl", splits=None,
    )  # fmt: skip
    counts = run_stage(STAGE, config)["counts"]
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    row = metrics["rows"]["bm25"]["page"]["recall@10"]
    assert counts["questions"] == 3 and metrics["questions"]["n_with_gold_page"] == 2 == row["n_questions"]
    assert row["value"] == 0.5 and metrics["questions"]["gold_outside_listed"] == ["q0"]
    with pytest.raises(ValueError, match="pairs: wanted them, or `questions`"):
        world.config(tmp_path / "b", questions=tmp_path)


@pytest.mark.parametrize("image", ["../secret.png", "missing.png", "/etc/passwd"])
def test_pictures_lie_beside_the_file(tmp_path: Path, image: str) -> None:
    (tmp_path / "secret.png").write_bytes(b"x")
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / "questions.jsonl", [question("q0", image=image)])
    with pytest.raises(InputError, match="wanted a picture beside the file"):
        benchmark_questions(tmp_path / "in")


def test_no_questions_and_equal_ids_are_errors(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "questions.jsonl", [])
    with pytest.raises(InputError, match="no questions"):
        benchmark_questions(tmp_path)
    write_jsonl(tmp_path / "questions.jsonl", [question("q"), question("q")])
    with pytest.raises(InputError, match="stands twice"):
        benchmark_questions(tmp_path)


@pytest.mark.parametrize(
    ("covered", "kind"),
    [
        ({"infobox": 5, "table": 9, "list": 0, "paragraph": 1}, "table"),
        ({"infobox": 9, "table": 9, "list": 9, "paragraph": 9}, "infobox"),
        ({"list": 3, "paragraph": 3}, "list"),
        ({"infobox": 0, "table": 0, "list": 0, "paragraph": 0}, "other"),
        ({}, "other"),
    ],
)
def test_kind_of_evidence(covered: dict[str, int], kind: str) -> None:
    assert evidence_kind(covered) == kind


def test_what_is_asked_says_nothing_of_the_answer() -> None:
    one = Question("q", "?", ("a",))
    assert one.asked_digest == Question("other", "?", ("b",)).asked_digest
    assert one.asked_digest != Question("q", "?", ("a",), options=("a", "b")).asked_digest
    assert one.asked_digest != Question("q", "?", ("a",), picture=b"png").asked_digest
