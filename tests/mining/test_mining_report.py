"""The figures of a report: against closed forms, counts by hand, and what a terminal shows."""

import dataclasses
import json
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mining.planted import Planted

from tilewright.configs.stage import run_stage
from tilewright.mining.mine_negatives import STAGE, Config
from tilewright.mining.mined import Looked, Mined, PairOutcome, Rules
from tilewright.mining.mining_report import naive_false_negatives, share_interval, show, verdicts_by_rank, write_cost

Z = NormalDist().inv_cdf(0.975)


def wilson(share: float, trials: float) -> tuple[float, float]:
    """The roots of (p - share)^2 = z^2 p (1 - p) / trials."""
    a, b, c = 1 + Z**2 / trials, -(2 * share + Z**2 / trials), share**2
    root = (b * b - 4 * a * c) ** 0.5
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


@given(st.integers(0, 40), st.integers(1, 40), st.integers(1, 9))
def test_clusters_that_agree_within_count_once(right: int, wrong: int, size: int) -> None:
    """n clusters of one size with one answer each are n - 1 independent trials, however large they are."""
    count = right + wrong
    clusters = [(size, size)] * right + [(0, size)] * wrong
    low, high = share_interval(clusters, 0.95)
    trials = count - 1 if right else count
    wanted = wilson(right / count, trials)
    assert (low, high) == pytest.approx((max(0.0, wanted[0]), min(1.0, wanted[1])), abs=1e-9)


def test_clusters_that_are_more_alike_than_chance_count_no_more_than_their_trials() -> None:
    assert share_interval([(1, 2)] * 5 + [(2, 3)], 0.95) == pytest.approx(wilson(7 / 13, 13))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=20))
def test_an_interval_holds_its_share_and_stays_in_bounds(pairs: list[tuple[int, int]]) -> None:
    clusters = [(right, right + wrong) for right, wrong in pairs if right + wrong]
    if not clusters:
        with pytest.raises(ValueError, match="at least 1 trial"):
            share_interval(clusters, 0.95)
        return
    low, high = share_interval(clusters, 0.95)
    share = sum(right for right, _ in clusters) / sum(total for _, total in clusters)
    assert 0 <= low <= share + 1e-12 and share - 1e-12 <= high <= 1 and high - low > 0
    wide = share_interval(clusters, 0.99)
    assert wide[0] <= low and high <= wide[1]


RULES = Rules("judged", 1, 9, 2, 2, 1, 0, 0)  # ranks from 2 on, two negatives, one of a page


def mined(page: int, outcomes: list[tuple[str, int, str]]) -> Mined:
    """A pair of ``page`` whose candidates are (page, rank, outcome)."""
    looked = tuple(Looked(page, f"q{page}", f"{p}-0000-00", rank, 0.5, outcome) for p, rank, outcome in outcomes)
    return Mined(PairOutcome(page, f"q{page}", f"page{page}", "kept", 1, 0.9), looked, None)


def test_naive_negatives_are_those_that_mode_naive_would_take() -> None:
    found = naive_false_negatives(
        [
            # a copy before the window; two of page a of which one counts; the second negative; beyond the end
            mined(1, [("z", 1, "DUPLICATE"), ("a", 2, "CORRECT"), ("a", 3, "WRONG"), ("b", 4, "WRONG"), ("c", 5, "X")]),
            mined(2, [("a", 2, "UNPARSED"), ("b", 3, "SAME_PAGE"), ("c", 4, "CANNOT_ANSWER"), ("d", 5, "CORRECT")]),
            mined(3, [("a", 2, "KNOWN_POSITIVE"), ("b", 3, "CORRECT"), ("c", 4, "WRONG")]),
            mined(4, []),
        ],
        RULES,
    )  # fmt: skip
    assert (found["judged"], found["false_negatives"], found["unparsed"], found["pages"]) == (5, 3, 1, 3)
    assert found["share"] == 0.6 and found["low"] < 0.6 < found["high"]
    assert "share" not in naive_false_negatives([mined(1, [])], RULES)


def test_verdict_rates_by_rank() -> None:
    table = verdicts_by_rank(
        [
            mined(1, [("a", 1, "CORRECT"), ("b", 2, "UNPARSED"), ("c", 10, "WRONG")]),
            mined(2, [("a", 1, "WRONG"), ("b", 2, "SAME_PAGE"), ("c", 10, "CANNOT_ANSWER")]),
        ]
    )
    assert list(table) == ["1", "2", "10"]
    assert table["1"] == {
        "CORRECT": 1,
        "WRONG": 1,
        "CANNOT_ANSWER": 0,
        "UNPARSED": 0,
        "judged": 2,
        "correct_share": 0.5,
    }
    assert table["2"]["judged"] == 1 and "correct_share" not in table["2"] and table["10"]["correct_share"] == 0


def test_the_terminal_shows_the_report(planted: Planted, tmp_path: Path, capsys: Any) -> None:
    config = Config(
        tmp_path / "mined", "judged", top_k=20, negatives=2, short="keep", same_page="allow", **planted.inputs
    )
    run_stage(STAGE, config)
    show(config.out)
    printed = capsys.readouterr().out
    assert "CANNOT_ANSWER" in printed and "false negatives among naive negatives: 1.000" in printed
    write_cost(config.out, {"calls": 30, "cached": 6, "cost": 0.6}, {"q": {"ahead": 2}, "r": {"ahead": 1}}, 6)
    assert json.loads((config.out / "logs/cost.json").read_text())["judged_ahead"] == 3
    show(config.out)
    assert "30 calls (5.00 per example), 6 from the cache, cost 0.6 (0.1 per example)" in capsys.readouterr().out
    run_stage(STAGE, dataclasses.replace(config, out=tmp_path / "in_batch", mode="in_batch"))
    show(tmp_path / "in_batch")
