"""Scores of a row: closed forms, errors apart from misses, missing gold, agreement with simulated chance."""

import dataclasses
import math
import random

import numpy as np
import pytest

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import QAPair
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.metrics import COMPLETE, INCOMPLETE, RowResult, Scorer
from tilewright.eval.parts import Question
from tilewright.eval.questions import Pool, clusters, gold_outside, subset

PAGE_A, PAGE_B = "a" * 16, "b" * 16
TILES = {PAGE_A: (f"{PAGE_A}-0000-00", f"{PAGE_A}-0001-00", f"{PAGE_A}-0002-00"), PAGE_B: (f"{PAGE_B}-0000-00",)}
POOL = Pool({tile: page for page, tiles in TILES.items() for tile in tiles}, TILES)


def pair(query_id: str, tile_id: str, page_id: str) -> Question:
    return Question.of(QAPair(query_id, "?", "x", (), tile_id, page_id, "", "sentence", "", "test/1"))


ON_A, ON_B = pair("qa", TILES[PAGE_A][0], PAGE_A), pair("qb", TILES[PAGE_B][0], PAGE_B)


def scorer(pairs: list[Question], pool: Pool = POOL) -> Scorer:
    bootstrap = ClusterBootstrap(clusters(pairs), resamples=50, seed=0)
    return Scorer(pairs, pool, bootstrap, ks=(1, 3), depth=4)


def hits(*tiles: str) -> list[tuple[str, float]]:
    return [(tile, -float(rank)) for rank, tile in enumerate(tiles)]


def test_page_and_tile_levels() -> None:
    a, b = TILES[PAGE_A], TILES[PAGE_B]
    result = RowResult({"qa": hits(a[1], a[2], b[0], a[0]), "qb": hits(a[1], b[0])}, {}, {})
    measured = scorer([ON_A, ON_B]).measure(result)
    assert measured["page"]["recall@1"].tolist() == [1.0, 0.0]
    assert measured["page"]["mrr"].tolist() == [1.0, 0.5]
    assert measured["tile"]["recall@1"].tolist() == [0.0, 0.0]
    assert measured["tile"]["recall@3"].tolist() == [0.0, 1.0]
    assert measured["tile"]["mrr"].tolist() == [0.25, 0.5]


def test_errors_are_neither_misses_nor_dropped_from_sight() -> None:
    one = scorer([ON_A, ON_B])
    result = RowResult({"qa": hits(TILES[PAGE_A][0])}, {"qb": "search down"}, {})
    row = one.summary(result, one.measure(result), max_error_share=0.02)
    assert (row["status"], row["n_questions"], row["n_graded"], row["n_errors"], row["n_pages"]) == (
        INCOMPLETE,
        2,
        1,
        1,
        1,
    )
    assert row["page"]["recall@1"]["value"] == 1.0 and row["page"]["recall@1"]["n_questions"] == 1
    assert one.summary(result, one.measure(result), max_error_share=0.5)["status"] == COMPLETE


def test_failed_tiles_make_a_row_incomplete() -> None:
    one = scorer([ON_A])
    result = RowResult({"qa": ()}, {}, {}, items_failed=1)
    assert one.summary(result, one.measure(result), max_error_share=0.2)["status"] == INCOMPLETE


def test_no_hits_is_a_miss() -> None:
    measured = scorer([ON_A]).measure(RowResult({"qa": ()}, {}, {}))
    assert [measured[level]["mrr"][0] for level in ("page", "tile")] == [0.0, 0.0]


def test_questions_without_gold_of_a_kind_do_not_count_there() -> None:
    """A benchmark may name the page and no tile, or neither."""
    nowhere = pair("q0", "", "")
    page_only = pair("q1", "", PAGE_A)
    one = scorer([ON_B, page_only, nowhere])
    result = RowResult({query_id: hits(TILES[PAGE_A][0]) for query_id in ("qb", "q0", "q1")}, {}, {})
    row = one.summary(result, one.measure(result), 0.0)
    assert (row["page"]["recall@1"]["value"], row["page"]["recall@1"]["n_questions"]) == (0.5, 2)
    assert (row["tile"]["recall@1"]["value"], row["tile"]["recall@1"]["n_questions"]) == (0.0, 1)


def test_gold_outside_the_pool_is_a_miss_at_chance_zero() -> None:
    stranger = pair("qx", f"{'c' * 16}-0000-00", "c" * 16)
    assert gold_outside([ON_A, stranger], POOL) == ["qx"]
    one = scorer([stranger])
    assert one.chance["page"]["recall@1"] == one.chance["tile"]["mrr"] == 0.0
    with pytest.raises(InputError, match="none of the 1 questions has its gold tile"):
        gold_outside([stranger], POOL)


def test_chance_is_what_random_rankings_score() -> None:
    pages = {f"{number:016x}": 1 + number % 5 for number in range(12)}
    tiles = {page: tuple(f"{page}-{row:04d}-00" for row in range(count)) for page, count in pages.items()}
    pool = Pool({tile: page for page, mine in tiles.items() for tile in mine}, tiles)
    pairs = [pair(f"q{page}", mine[0], page) for page, mine in tiles.items()]
    bootstrap = ClusterBootstrap(clusters(pairs), resamples=10, seed=0)
    one = Scorer(pairs, pool, bootstrap, ks=(1, 3, 10), depth=20)
    generator, totals = random.Random(0), {level: dict.fromkeys(one.measures, 0.0) for level in ("page", "tile")}
    trials, order = 1500, list(pool.page_of)
    for _ in range(trials):
        rankings = {item.query_id: hits(*generator.sample(order, len(order))) for item in pairs}
        for level, values in one.measure(RowResult(rankings, {}, {})).items():
            for name, array in values.items():
                totals[level][name] += float(array.mean()) / trials
    for level, values in totals.items():
        assert values == pytest.approx(one.chance[level], abs=0.012)


def test_difference_is_paired_over_what_both_graded() -> None:
    one = scorer([ON_A, ON_B, dataclasses.replace(ON_A, query_id="qc")])
    good = hits(TILES[PAGE_A][0])
    left = RowResult({"qa": good, "qb": (), "qc": good}, {}, {})
    right = RowResult({"qa": (), "qb": ()}, {"qc": "down"}, {})
    difference = one.difference(one.measure(left), one.measure(right))["tile"]["recall@1"]
    assert (difference["value"], difference["n_questions"]) == (0.5, 2)


def test_rows_must_answer_every_question_once_and_with_known_tiles() -> None:
    one = scorer([ON_A])
    for result in (RowResult({}, {}, {}), RowResult({"qa": ()}, {"qa": "both"}, {})):
        with pytest.raises(InputError, match="hits or an error"):
            one.measure(result)
    with pytest.raises(InputError, match="isn't among the 4 items"):
        one.measure(RowResult({"qa": hits("nowhere")}, {}, {}))


def test_subset_depends_on_ids_alone() -> None:
    pairs = [pair(f"q{number}", TILES[PAGE_A][0], PAGE_A) for number in range(50)]
    chosen = subset(pairs, 10, 0, "readers")
    assert {item.query_id for item in subset(pairs[::-1], 10, 0, "readers")} == {item.query_id for item in chosen}
    assert [pairs.index(item) for item in chosen] == sorted(pairs.index(item) for item in chosen)
    assert chosen != subset(pairs, 10, 1, "readers") and chosen != subset(pairs, 10, 0, "shown")
    assert subset(pairs, 99, 0, "readers") == pairs
    kept = subset([item for item in pairs if item != chosen[0]], 10, 0, "readers")
    assert set(chosen[1:]) < set(kept)


def test_questions_without_a_page_are_clusters_of_their_own() -> None:
    assert clusters([ON_A, pair("q1", "", ""), pair("q2", "", "")]) == [PAGE_A, "question q1", "question q2"]


def test_nan_marks_what_does_not_count() -> None:
    measured = scorer([pair("q", "", PAGE_A)]).measure(RowResult({"q": ()}, {}, {}))
    assert math.isnan(measured["tile"]["mrr"][0]) and not np.isnan(measured["page"]["mrr"]).any()
