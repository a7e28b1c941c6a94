"""What a cell shows and what is counted: nested tiles, uniform positions, the Pareto front by a second formula."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.records import EvalRecord
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.parts import Question
from tilewright.eval.reader_cells import Row, shrunk
from tilewright.eval.reader_metrics import ABSTAINS, CellOf, abstains, entry_of, pareto
from tilewright.eval.reader_report import markdown, render
from tilewright.mining.reader_report import chi_square, p_value

HOSTILE = "<script>alert(1)</script>"


def row(number: int, tiles: int, gold: int | None) -> Row:
    question = Question(f"q{number}", "?", ("right",), cluster=f"p{number}")
    names = tuple(f"{number}-{place}" for place in range(tiles))
    return Row(question, names, gold, "not shown here" if gold is None else None)


@given(st.integers(0, 999), st.integers(1, 6), st.data())
def test_tiles_for_k_are_among_those_for_more_and_hold_the_gold(number: int, tiles: int, data: st.DataObject) -> None:
    whole = row(number, tiles, data.draw(st.none() | st.integers(0, tiles - 1)))
    assert shrunk(whole, tiles, 7) == whole and shrunk(whole, tiles + 1, 7) is None
    larger = whole
    for k in range(tiles, 0, -1):
        smaller = shrunk(whole, k, 7)
        assert smaller is not None and len(smaller.tile_ids) == k
        assert [tile for tile in larger.tile_ids if tile in smaller.tile_ids] == list(smaller.tile_ids)
        if whole.gold_position is None or smaller.gold_position is None:
            assert whole.gold_position is smaller.gold_position is None
        else:
            assert smaller.tile_ids[smaller.gold_position] == whole.tile_ids[whole.gold_position]
        larger = smaller


def test_gold_positions_stay_uniform_when_fewer_tiles_are_shown() -> None:
    rows = [row(number, 6, number % 6) for number in range(6000)]
    kept = [shrunk(one, 3, 1) for one in rows]
    counts = Counter(one.gold_position for one in kept if one is not None)
    first = Counter(min(one.gold_position or 0, 2) for one in rows)  # the gold and the first two others: not uniform
    assert (p_value(chi_square([counts[place] for place in range(3)]), 2) or 0) > 1e-3
    assert p_value(chi_square([first[place] for place in range(3)]), 2) == 0


@given(st.dictionaries(st.text("abc", min_size=1), st.tuples(st.integers(1, 6), st.integers(0, 5)), max_size=8))
def test_the_front_is_what_no_other_point_beats(points: dict[str, tuple[float, float]]) -> None:
    def beaten(one: str) -> bool:
        tokens, value = points[one]
        return any(
            (other <= tokens and better > value) or (other < tokens and better >= value)
            for other, better in points.values()
        )

    front = pareto(points)
    assert {points[name] for name in front} == {points[name] for name in points if not beaten(name)}
    assert len({points[name] for name in front}) == len(front)
    assert [points[name][0] for name in front] == sorted(points[name][0] for name in front)


@pytest.mark.parametrize(
    ("said", "gold", "wanted"),
    [("Cannot answer.", 0, True), ("not shown here", None, True), ("not shown here", 0, False), ("", None, False)],
)
def test_who_abstains(said: str, gold: int | None, wanted: bool) -> None:
    assert abstains(said, row(0, 2, gold)) is wanted


def cell() -> CellOf:
    """Two of three shown are right, one failed; absent: one abstains, one is wrong, one says the gold, one is blank."""
    rows = [row(number, 2, number % 2 if number < 4 else None) for number in range(8)]
    said = ["right", "right", "wrong", None, "NOT shown here!", "Oslo", "Right", " "]
    scores = [1.0, 1.0, 0.0, None, 1.0, 0.0, 0.0, 0.0]
    records = [
        EvalRecord(
            row="examples.c2.reader.k2", query_id=one.question.query_id, query="?", answers=("right",), gold_urls=(),
            gold_tile_ids=(), hits=(), prediction=text, scores={"alias" if number < 4 else ABSTAINS: score},
            error="reader failed: x" if text is None else None, input_tokens=10 * number, visual_tokens=number,
        )
        for number, (one, text, score) in enumerate(zip(rows, said, scores, strict=True))
    ]  # fmt: skip
    return CellOf(HOSTILE, 2.0, 2, rows, records)


def test_figures_of_a_cell_by_hand() -> None:
    bootstrap = ClusterBootstrap([f"p{number}" for number in range(8)], resamples=200, seed=1)
    entry = entry_of(cell(), ["alias"], "alias", bootstrap, 0.1)
    shown, absent = entry["shown"], entry["absent"]
    assert (entry["status"], entry["n_errors"], entry["n_questions"]) == ("incomplete", 1, 8)
    assert shown["accuracy"]["alias"]["value"] == pytest.approx(2 / 3) and shown["accuracy"]["alias"]["n_errors"] == 1
    assert shown["accuracy"]["alias"]["method"].startswith("Wilson")
    assert [figure["value"] for figure in shown["by_gold_position"]] == [0.5, 1.0]
    assert [figure["n_errors"] for figure in shown["by_gold_position"]] == [0, 1]
    assert absent["n_questions"] == 4 and absent["abstained"]["value"] == 0.25
    assert absent["false_answers"]["value"] == 0.5 and (absent["n_blank"], absent["n_false_but_gold"]) == (1, 1)
    assert entry["tokens"]["input"] == np.mean([0, 10, 20, 40, 50, 60, 70])
    metrics = {
        "settings": {"ks": [2]}, "graders": {"columns": ["alias"], "deciding": "alias"}, "readers": {HOSTILE: HOSTILE},
        "stand_ins": [HOSTILE], "n_examples": 8, "fewer_tiles": {"2": 0}, "grid": [entry], "differences": [],
        "pareto": [entry["name"]],
    }  # fmt: skip
    page = render(metrics)
    assert HOSTILE not in page and "&lt;script&gt;" in page and "INCOMPLETE" in page
    assert "66.7" in markdown(metrics)
