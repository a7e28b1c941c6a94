"""Evidence recall by a judge's verdicts, some of which are missing: what isn't known counts neither way."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.judged_hits import JudgedHits, found_within
from tilewright.eval.metrics import COMPLETE, INCOMPLETE, JUDGED, STRING, RowResult, Scorer
from tilewright.eval.parts import Question
from tilewright.eval.questions import Pool
from tilewright.eval.report.judged_table import judged_tables
from tilewright.eval.report.markdown_tables import markdown_of

Held = Sequence[bool | None]


@pytest.mark.parametrize(
    ("held", "by_k"),
    [
        ((True,), (1, 1, 1)),
        ((False, True), (0, 1, 1)),
        ((None, True), (math.nan, 1, 1)),
        ((False, None, False), (0, math.nan, math.nan)),
        ((False, False, False), (0, 0, 0)),
        ((), (0, 0, 0)),
    ],
)
def test_by_hand(held: Held, by_k: tuple[float, ...]) -> None:
    assert [found_within(held, k) for k in (1, 2, 3)] == pytest.approx(by_k, nan_ok=True)


@given(st.lists(st.sampled_from([True, False, None]), max_size=6), st.integers(1, 7))
def test_a_figure_is_one_whatever_the_missing_verdicts_would_be(held: list[bool | None], k: int) -> None:
    """Second way: fill in every missing verdict with yes, and with no; where both agree it is known."""
    yes, no = (any(fill if one is None else one for one in held[:k]) for fill in (True, False))
    assert found_within(held, k) == pytest.approx(float(yes) if yes == no else math.nan, nan_ok=True)


QUESTIONS = [Question(f"q{n}", "?", ("a",), frozenset({f"p{n}"}), cluster=f"p{n}") for n in range(5)]
POOL = Pool({f"t{n}": f"p{n}" for n in range(5)}, {f"p{n}": (f"t{n}",) for n in range(5)})


def judged_row(held: dict[str, Held], max_error_share: float) -> dict[str, object]:
    """The row of five questions with three hits each, of which q3's search failed and q4 wasn't judged."""
    hits = {f"q{n}": (("t0", 3.0), ("t1", 2.0), ("t2", 1.0)) for n in (0, 1, 2, 4)}
    string = dict.fromkeys(hits, (False, True, False))
    judged = JudgedHits("judge/1", 2, held, failed=1)
    result = RowResult(hits, {"q3": "down"}, {}, evidence=string, judged=judged)
    bootstrap = ClusterBootstrap([one.cluster for one in QUESTIONS], resamples=50, seed=0)
    scorer = Scorer(QUESTIONS, POOL, bootstrap, ks=(1, 2, 3), depth=3)
    return scorer.summary(result, scorer.measure(result), max_error_share)


def test_a_row_has_both_figures_apart_and_counts_what_is_not_known() -> None:
    row = judged_row({"q0": (True,), "q1": (False, False), "q2": (None, False)}, 0.4)
    judged, string = row[JUDGED], row[STRING]
    assert isinstance(judged, dict) and isinstance(string, dict)
    assert list(judged) == ["recall@1", "recall@2"], "no more than was judged"
    assert [judged[name]["value"] for name in judged] == [0.5, 0.5]
    assert [judged[name]["n_questions"] for name in judged] == [2, 2] and string["recall@2"]["n_questions"] == 4
    assert string["recall@2"]["value"] == 1.0 and judged["recall@1"]["chance"] is None
    assert row["evidence_judge"] == {
        "by": "judge/1", "depth": 2, "n_questions": 3, "n_undecided": 1, "n_verdicts": 4, "n_errors": 1, "n_unparsed": 0
    }  # fmt: skip
    assert row["status"] == COMPLETE
    assert judged_row({"q0": (True,), "q1": (False, False), "q2": (None, False)}, 0.3)["status"] == INCOMPLETE


def test_the_table_says_on_how_many_questions_a_figure_is() -> None:
    """q1 is undecided by its second hit, and counts at the first nonetheless; q2 the other way round."""
    row = judged_row({"q0": (True,), "q1": (False, None), "q2": (None, True)}, 1.0)
    (table,) = judged_tables({"rows": {"a": row | {"n_errors": 0}}, "differences": []})
    (line,) = markdown_of(table).splitlines()[4:]
    cells = line.split(" | ")
    assert (cells[1][:4], cells[3][:5]) == ("50.0", "100.0") and all(cells[place][-6:] == " n = 2" for place in (1, 3))
    assert line.endswith("| 3 | 1 | 3 | 1 | 0 |")


def test_questions_that_were_not_judged_count_nowhere() -> None:
    found = JudgedHits("judge/1", 3, {"q0": (True,)}).recall_at(["q0", "q1"], 2)
    assert found[0] == 1 and np.isnan(found[1])
