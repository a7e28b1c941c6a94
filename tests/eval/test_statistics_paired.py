"""Paired tests: closed forms, brute force over all signs, symmetries, and how often they reject what is true."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.eval.statistics_paired import DRAWN, EXACT, holm, mcnemar, sign_flips

COUNTS = st.integers(0, 40)
DIFFERENCES = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 1.0, math.nan]), st.integers(0, 5)), min_size=1, max_size=30
)


def flips(differences: list[float], pages: list[str], draws: int = 500, seed: int = 0) -> float | None:
    return sign_flips(np.array(differences), pages, draws=draws, seed=seed).p


@given(COUNTS, COUNTS)
def test_mcnemar_is_the_tail_of_fair_coins(gained: int, lost: int) -> None:
    total = gained + lost
    chances = [math.comb(total, heads) / 2**total for heads in range(total + 1)]
    as_far = math.fsum(chance for heads, chance in enumerate(chances) if abs(2 * heads - total) >= abs(gained - lost))
    found = mcnemar(gained, lost)
    assert found.exact == pytest.approx(as_far)
    own = chances[gained] if gained != lost else chances[gained] / 2  # the outcome counts half, in each tail
    assert found.mid == pytest.approx(found.exact - own if gained != lost else 1.0)
    assert 0 < found.mid <= found.exact <= 1 or (gained == lost and found.mid == found.exact == 1)
    assert mcnemar(lost, gained) == found


def test_mcnemar_textbook_values() -> None:
    assert mcnemar(10, 0).exact == 2 / 1024 and mcnemar(10, 0).mid == 1 / 1024
    assert mcnemar(620, 225).exact == pytest.approx(2.6e-43, rel=0.2)  # 620/225: chi squared (395²/845) of 184.6
    assert mcnemar(0, 0).exact == mcnemar(0, 0).mid == 1.0
    with pytest.raises(ValueError, match="lost -1"):
        mcnemar(3, -1)


@given(DIFFERENCES)
def test_sign_flips_equal_brute_force(entries: list[tuple[float, int]]) -> None:
    differences, pages = [value for value, _ in entries], [f"page {page}" for _, page in entries]
    found = flips(differences, pages)
    counted = [(value, page) for value, page in zip(differences, pages, strict=True) if not math.isnan(value)]
    if not counted:
        assert found is None
        return
    sums: dict[str, float] = {}
    for value, page in counted:
        sums[page] = sums.get(page, 0.0) + value
    observed = abs(sum(sums.values()))
    turned = [
        abs(sum(s * v for s, v in zip(signs, sums.values(), strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(sums))
    ]
    assert found == pytest.approx(sum(value >= observed for value in turned) / len(turned))


@given(COUNTS, COUNTS, st.integers(0, 20))
def test_one_question_a_page_is_mcnemars_test(gained: int, lost: int, alike: int) -> None:
    differences = [1.0] * gained + [-1.0] * lost + [0.0] * alike
    found = sign_flips(np.array(differences), [f"{n}" for n in range(len(differences))], draws=10, seed=0)
    if differences:
        assert found.method == EXACT and found.p == pytest.approx(mcnemar(gained, lost).exact)


@given(DIFFERENCES, st.randoms(use_true_random=False))
def test_order_and_sides_do_not_matter(entries: list[tuple[float, int]], random: "object") -> None:
    shuffled = list(entries)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for scale in (1.0, 0.37):  # whole numbers: exact; others: drawn
        one = [(scale * value, f"p{page}") for value, page in entries]
        other = [(-scale * value, f"p{page}") for value, page in shuffled]
        assert flips(*map(list, zip(*one, strict=True))) == flips(*map(list, zip(*other, strict=True)))  # type: ignore[arg-type]


def test_alike_questions_of_a_page_count_as_one() -> None:
    """Ten gains on one page are one piece of evidence; on ten pages they are ten."""
    assert flips([1.0] * 10, ["a"] * 10) == 1.0
    assert flips([1.0] * 10, [f"p{n}" for n in range(10)]) == pytest.approx(2 / 1024)


def test_drawn_signs_come_near_the_exact_value() -> None:
    pages = [f"p{n}" for n in range(12)]
    differences = np.array([0.5, 0.25, 0.3, -0.1, 0.2, 0.15, -0.35, 0.4, 0.05, 0.3, 0.2, -0.1])
    observed = differences.sum()
    signs = np.array(list(itertools.product((-1, 1), repeat=12)))
    exact = float((np.abs(signs @ np.abs(differences)) >= observed - 1e-9).mean())
    found = sign_flips(differences, pages, draws=20_000, seed=3)
    assert found.method == DRAWN and found.p == pytest.approx(exact, abs=4 * math.sqrt(exact / 20_000))
    assert sign_flips(differences + 50, pages, draws=99, seed=0).p == pytest.approx(2 / 4096, abs=0.01 + 1 / 100)
    assert sign_flips(differences, pages, draws=20_000, seed=3) == found


def test_drawn_p_is_never_zero() -> None:
    values = np.full(200, 0.5) + np.arange(200) * 1e-3
    assert sign_flips(values, [f"p{n}" for n in range(200)], draws=99, seed=0).p == 1 / 100
    with pytest.raises(ValueError, match="draws >= 1"):
        sign_flips(values, [f"p{n}" for n in range(200)], draws=0, seed=0)


def test_large_tables_are_exact_too() -> None:
    generator = np.random.default_rng(0)
    pages = [f"p{n}" for n in generator.integers(0, 3000, size=10_000)]
    differences = generator.choice([-1.0, 0.0, 1.0], size=10_000, p=[0.1, 0.8, 0.1])
    sums = np.bincount(np.unique(pages, return_inverse=True)[1], weights=differences)
    normal = math.erfc(abs(sums.sum()) / math.sqrt(2 * float((sums**2).sum())))
    assert flips(list(differences), pages) == pytest.approx(normal, abs=0.02)


def test_holm_worked_example() -> None:
    """Sorted 0.01, 0.02, 0.03, 0.5 times 4, 3, 2, 1, never falling."""
    found = holm({"d": 0.5, "a": 0.01, "c": 0.03, "b": 0.02, "not run": None})
    assert found == {"d": 0.5, "a": 0.04, "c": pytest.approx(0.06), "b": 0.06, "not run": None}
    assert holm({}) == {} and holm({"alone": 0.04}) == {"alone": 0.04}
    with pytest.raises(ValueError, match="x: wanted a p-value"):
        holm({"x": math.nan})


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=8), st.floats(0.01, 0.3))
def test_holm_rejects_what_the_step_down_rule_rejects(p_values: dict[str, float], alpha: float) -> None:
    rejected: set[str] = set()
    for rank, name in enumerate(sorted(p_values, key=lambda name: (p_values[name], name))):
        if min(1.0, (len(p_values) - rank) * p_values[name]) > alpha:
            break
        rejected.add(name)
    adjusted = holm(dict(p_values))
    assert {name for name, p in adjusted.items() if p is not None and p <= alpha} == rejected
    assert all(adjusted[name] >= p for name, p in p_values.items())  # type: ignore[operator]


@pytest.mark.slow
def test_true_nulls_are_rejected_as_often_as_said() -> None:
    """Questions of a page alike: the test by pages keeps its level, McNemar's would reject far too often."""
    generator = np.random.default_rng(11)
    by_page = by_question = 0
    for trial in range(1500):
        leaning = generator.beta(0.5, 0.5, size=(2, 25, 1))  # how easy a page is for each row, by chance
        left, right = (generator.random((2, 25, 8)) < leaning).astype(float)
        differences = (left - right).ravel()
        pages = [f"p{n}" for n in range(25) for _ in range(8)]
        p = flips(list(differences), pages, seed=trial)
        assert p is not None
        by_page += p <= 0.05
        by_question += mcnemar(int((differences > 0).sum()), int((differences < 0).sum())).exact <= 0.05
    assert 0.02 <= by_page / 1500 <= 0.07
    assert by_question / 1500 > 0.15
