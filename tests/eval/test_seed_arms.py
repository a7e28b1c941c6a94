"""Arms over seeds: means against the rows' own figures, spread, paired differences, what is refused."""

import math
import statistics
from typing import Any

import numpy as np
import pytest

from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.metrics import JUDGED
from tilewright.eval.report.markdown_tables import markdown_of
from tilewright.eval.report.markup import join
from tilewright.eval.report.seed_tables import arms_table, seed_tables
from tilewright.eval.seed_arms import ACCURACY, SeedArms

PAGES = ["a", "a", "b", "c", "d", "d"]
BOOTSTRAP = ClusterBootstrap(PAGES, resamples=500, seed=1)
RUNS = {
    "judged_1": [1, 1, 0, 1, 0, 1],
    "judged_2": [1, 0, 1, 1, 0, 1],
    "naive_1": [0, 1, 0, 0, 0, 1],
    "naive_2": [0, 0, 0, 1, 0, math.nan],
}
ARMS = {"judged": ("judged_1", "judged_2"), "naive": ("naive_1", "naive_2")}


def values(rows: dict[str, list[float]]) -> dict[str, dict[str, dict[str, np.ndarray]]]:
    return {name: {"page": {"recall@1": np.array(row, dtype=float)}} for name, row in rows.items()}


def test_means_spread_and_difference() -> None:
    found = SeedArms(ARMS, [("judged", "naive"), ("naive", "judged")]).metrics(
        (BOOTSTRAP, values(RUNS)), (BOOTSTRAP, {})
    )
    judged = found["arms"]["judged"]["page"]["recall@1"]
    own = [sum(RUNS[name]) / 6 for name in ARMS["judged"]]
    assert judged["value"] == pytest.approx(statistics.mean(own))
    assert judged["by_seed"] == pytest.approx(own) and judged["sd"] == pytest.approx(statistics.stdev(own))
    assert judged["low"] <= judged["value"] <= judged["high"]
    naive = found["arms"]["naive"]["page"]["recall@1"]
    assert naive["n_questions"] == 5, "the question that failed in one seed doesn't count"
    assert naive["by_seed"] == pytest.approx([1 / 5, 1 / 5]) and naive["sd"] == 0
    there, back = (entry["page"]["recall@1"] for entry in found["differences"])
    mean = np.mean([RUNS["judged_1"], RUNS["judged_2"]], axis=0) - np.mean([RUNS["naive_1"], RUNS["naive_2"]], axis=0)
    assert there["value"] == pytest.approx(float(np.nanmean(mean)))
    assert (there["value"], there["gained"]) == (-back["value"], back["lost"])
    assert there["p"] <= there["p_holm"] <= 1


def test_one_seed_has_no_spread_and_equals_its_row() -> None:
    found = SeedArms({"judged": ("judged_1",)}).metrics((BOOTSTRAP, values(RUNS)), (BOOTSTRAP, {}))
    figure = found["arms"]["judged"]["page"]["recall@1"]
    alone = BOOTSTRAP.mean(np.array(RUNS["judged_1"], dtype=float))
    assert (figure["value"], figure["low"], figure["high"]) == (alone.value, alone.low, alone.high)
    assert figure["sd"] is None and figure["n_seeds"] == 1


def test_cells_and_missing_rows() -> None:
    cells = {name: {ACCURACY: {"exact": row["page"]["recall@1"]}} for name, row in values(RUNS).items()}
    arms = SeedArms(ARMS | {"gone": ("judged_3", "judged_4")}, [("judged", "naive"), ("judged", "gone")])
    found = arms.metrics((BOOTSTRAP, {}), (BOOTSTRAP, cells))
    assert found["arms"]["gone"] == {"rows": ["judged_3", "judged_4"], "not_run": ["judged_3", "judged_4"]}
    assert [entry["against"] for entry in found["differences"]] == ["naive"]
    metrics = {"seeds": found, "graders": {"columns": ["exact"]}, "settings": {"ks": [1], "depth": 10}, "rows": {}}
    text = "".join(seed_tables(metrics))
    lines = markdown_of(arms_table(metrics, ACCURACY)).splitlines()
    assert [line.split(" | ")[-2:] for line in lines[2:]] == [
        ["Questions", "Pages |"], ["---:", "---: |"], ["6", "4 |"], ["5", "4 |"], ["–", "– |"]
    ]  # fmt: skip
    assert lines[-1].startswith("| gone: not run: judged_3, judged_4 | 2 |"), "left out of the means, but named"
    assert arms_table(metrics, "page") == "" == arms_table({"seeds": {}}, "page")
    assert "gone: not run: judged_3, judged_4" in text and "judged − naive, paired" in text
    assert seed_tables({"seeds": {}}) == []


def test_judged_evidence_is_shown_over_seeds_down_to_its_depth() -> None:
    judged = {name: {JUDGED: row["page"]} for name, row in values(RUNS).items()}
    found = SeedArms(ARMS, [("judged", "naive")]).metrics((BOOTSTRAP, judged), (BOOTSTRAP, {}))
    metrics = {"seeds": found, "graders": {"columns": []}, "settings": {"ks": [1, 20], "depth": 20}, "rows": {}}
    head = "| Arm | Seeds | Recall@1 | Questions | Pages |"
    assert head in (text := markdown_of(join(seed_tables(metrics)))) and "Recall@20" not in text
    assert "| judged − naive, paired | " in text and text.count(JUDGED) == 2


def test_of_an_arm_that_was_run_in_part_only_the_missing_rows_are_named() -> None:
    found = SeedArms(ARMS).metrics((BOOTSTRAP, values({"judged_2": RUNS["judged_2"]})), (BOOTSTRAP, {}))
    assert [entry["not_run"] for entry in found["arms"].values()] == [["judged_1"], ["naive_1", "naive_2"]]


def test_means_that_differ_by_rounding_alone_are_the_same() -> None:
    """The sum of these three depends on their order by one unit in the last place."""
    ranks = {"a": 12, "b": 13, "c": 14}
    rows = {f"{arm}_{seed}": [1 / ranks[seed]] * 6 for arm in ("left", "right") for seed in ranks}
    arms = {"left": ("left_a", "left_b", "left_c"), "right": ("right_c", "right_b", "right_a")}
    found = SeedArms(arms, [("left", "right")]).metrics((BOOTSTRAP, values(rows)), (BOOTSTRAP, {}))
    pair = found["differences"][0]["page"]["recall@1"]
    assert (pair["value"], pair["gained"], pair["lost"], pair["same"], pair["low"]) == (0, 0, 0, 6, None)


@pytest.mark.parametrize(
    ("arms", "pairs", "message"),
    [
        ({"a": ("r1", "x")}, (), "wanted retrievers or reader cells"),
        ({"a": ("r1", "c1")}, (), "wanted retrievers or reader cells"),
        ({"a": ()}, (), "wanted retrievers or reader cells"),
        ({"a": ("r1", "r1")}, (), "once"),
        ({"a": ("r1",), "b": ("r1",)}, (), "in one arm"),
        ({"a": ("r1",)}, (("a", "b"),), "wanted arms of `seeds`"),
        ({"a": ("r1",), "b": ("c1",)}, (("a", "b"),), "two arms of retrievers or two of cells"),
    ],
)
def test_arms_that_cannot_be(arms: Any, pairs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SeedArms(arms, pairs).check(["r1", "r2"], ["c1"])
