"""TREC files: our figures equal those of ir-measures on them, ties and misses included."""

import math
import random
import tempfile
from pathlib import Path

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import Ranking
from tilewright.eval.trec import read_qrels, read_run, write_qrels, write_run
from tilewright.train.retrieval_metrics import (
    mean_reciprocal_rank,
    recall_at_k,
    recalls,
    reciprocal_ranks,
    success_at_k,
)

Rankings = dict[str, list[tuple[str, float]]]


def rankings_with_ties(queries: int = 40, tiles: int = 60) -> Rankings:
    """Scores rounded to one digit: most are tied, and the order among equals isn't that of ids."""
    generator = random.Random(4)
    rankings = {}
    for query in range(queries):
        hits = [(f"tile-{number:02d}", round(generator.uniform(-1, 1), 1)) for number in range(tiles)]
        generator.shuffle(hits)
        rankings[f"q{query}"] = sorted(hits, key=lambda hit: -hit[1])[: generator.randint(0, 30)]
    return rankings


def as_rankings(hits: Rankings) -> list[Ranking]:
    return [Ranking(query, tuple(found)) for query, found in hits.items()]


def test_equal_ir_measures(tmp_path: Path) -> None:
    rankings = rankings_with_ties()
    relevant = {
        query: {f"tile-{(7 * n + shift) % 60:02d}" for shift in range(1 + n % 3)} for n, query in enumerate(rankings)
    }
    write_run(tmp_path / "a.trec", as_rankings(rankings), "a")
    write_qrels(tmp_path / "qrels.trec", relevant)
    order = {query: [tile for tile, _ in hits] for query, hits in rankings.items()}
    measures = [ir_measures.parse_measure(name) for name in ("R@1", "R@3", "R@10", "Success@3", "RR")]
    theirs = ir_measures.calc_aggregate(
        measures,
        list(ir_measures.read_trec_qrels(str(tmp_path / "qrels.trec"))),
        list(ir_measures.read_trec_run(str(tmp_path / "a.trec"))),
    )
    for k in (1, 3, 10):
        assert recall_at_k(order, relevant, k) == pytest.approx(theirs[ir_measures.parse_measure(f"R@{k}")], abs=1e-9)
    assert success_at_k(order, relevant, 3) == pytest.approx(theirs[ir_measures.parse_measure("Success@3")])
    assert mean_reciprocal_rank(order, relevant) == pytest.approx(theirs[ir_measures.parse_measure("RR")])


def test_order_survives_the_file(tmp_path: Path) -> None:
    rankings = rankings_with_ties()
    write_run(tmp_path / "a.trec", as_rankings(rankings), "a")
    back = {ranking.query_id: ranking.hits for ranking in read_run(tmp_path / "a.trec")}
    for query, hits in rankings.items():
        assert [tile for tile, _ in back.get(query, [])] == [tile for tile, _ in hits]
        scores = [score for _, score in back.get(query, [])]
        assert scores == sorted(set(scores), reverse=True)


def test_lines_have_the_standard_form(tmp_path: Path) -> None:
    write_run(tmp_path / "a.trec", [Ranking("q1", (("t1", 0.5), ("t2", 0.5)))], "row")
    assert (tmp_path / "a.trec").read_text() == "q1 Q0 t1 1 0.5 row\nq1 Q0 t2 2 0.49999997 row\n"
    write_qrels(tmp_path / "q.trec", {"q1": {"t2", "t1"}, "q2": set()})
    assert (tmp_path / "q.trec").read_text() == "q1 0 t1 1\nq1 0 t2 1\n"
    assert read_qrels(tmp_path / "q.trec") == {"q1": {"t1", "t2"}}


@pytest.mark.parametrize("name", ["a b", "", "a\tb", "a\u00a0b", " a"])
def test_ids_with_spaces_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="id without spaces"):
        write_run(tmp_path / "a.trec", [Ranking(name, (("t", 1.0),))], "row")
    with pytest.raises(InputError, match="id without spaces"):
        write_qrels(tmp_path / "q.trec", {"q": [name]})


@pytest.mark.parametrize(("text", "message"), [("q Q0 t 1 x row\n", "score"), ("q Q0 t 1\n", "6 columns, found 4")])
def test_broken_runs_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.trec"
    path.write_text("q Q0 t0 1 2.5 row\n" + text)
    with pytest.raises(InputError, match=rf"a\.trec:2.*{message}"):
        read_run(path)


def test_broken_qrels_name_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "q.trec"
    path.write_text("q 0 t yes\n")
    with pytest.raises(InputError, match=r"q\.trec:1.*whole number"):
        read_qrels(path)


ITEMS = [f"t{number}" for number in range(8)]
SCORED = st.lists(
    st.tuples(st.sampled_from(ITEMS), st.sampled_from([0.5, 0.25, 0.0, -1.0, 1e-40, 1e300])),
    unique_by=lambda hit: hit[0],
)
WORLDS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "q4"]),
    st.tuples(SCORED, st.frozensets(st.sampled_from(ITEMS), max_size=3)),
    min_size=1,
)


@given(WORLDS)
def test_every_query_equals_ir_measures(world: dict[str, tuple[list[tuple[str, float]], frozenset[str]]]) -> None:
    """Ties, scores beyond 32 bits, empty rankings, gold that isn't found; queries without gold don't count."""
    relevant = {query: gold for query, (_, gold) in world.items()}
    hits = {query: sorted(found, key=lambda hit: -hit[1]) for query, (found, _) in world.items()}
    order = {query: [item for item, _ in found] for query, found in hits.items()}
    with tempfile.TemporaryDirectory() as folder:
        run, qrels = Path(folder) / "run", Path(folder) / "qrels"
        write_run(run, as_rankings(hits), "row")
        write_qrels(qrels, relevant)
        judged, ranked = list(ir_measures.read_trec_qrels(str(qrels))), list(ir_measures.read_trec_run(str(run)))
    names = {"R@1": 1, "R@3": 3, "R@10": 10, "RR": 0}
    measures = {name: ir_measures.parse_measure(name) for name in names}
    if not any(relevant.values()):
        assert not judged and not recalls(order, relevant, 3)
        return
    theirs: dict[str, dict[str, float]] = {name: {} for name in names}
    for value in ir_measures.iter_calc(list(measures.values()), judged, ranked):
        theirs[str(value.measure)][value.query_id] = value.value
    for name, k in names.items():
        ours = recalls(order, relevant, k) if k else reciprocal_ranks(order, relevant)
        assert set(ours) == {query for query, gold in relevant.items() if gold}
        for query, value in ours.items():  # they say nothing of a query without a line in the run: it is a miss
            assert theirs[name].get(query, 0.0) == pytest.approx(value)


def test_what_tools_count_in_ways_of_their_own_is_refused(tmp_path: Path) -> None:
    twice = Ranking("q", (("t", 1.0), ("u", 0.5), ("t", 0.25)))
    with pytest.raises(InputError, match="'q': item 't' comes twice"):
        write_run(tmp_path / "a.trec", [twice], "row")
    with pytest.raises(InputError, match="query 'q' comes twice"):
        write_run(tmp_path / "a.trec", [Ranking("q", ()), Ranking("q", ())], "row")
    for score in (math.nan, math.inf):
        with pytest.raises(InputError, match="finite score for 't'"):
            write_run(tmp_path / "a.trec", [Ranking("q", (("t", score),))], "row")
    (tmp_path / "b.trec").write_text("q Q0 t 1 2.5 row\nq Q0 t 2 1.5 row\n")
    with pytest.raises(InputError, match=r"b\.trec:2:.*twice"):
        read_run(tmp_path / "b.trec")
    (tmp_path / "b.trec").write_text("q Q0 t 1 nan row\n")
    with pytest.raises(InputError, match=r"b\.trec:1:.*finite"):
        read_run(tmp_path / "b.trec")
