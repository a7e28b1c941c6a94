"""Why questions fail and what they cost: failure modes, kinds of evidence, displacement, ranks, tokens, latency.

Evidence here is by string (``string_evidence``): tables say so.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from tilewright.data_gen.llm import Prices
from tilewright.data_gen.records import EvalRecord
from tilewright.eval.bootstrap import ClusterBootstrap, Values
from tilewright.eval.metrics import RowResult, as_json
from tilewright.eval.parts import Item, Question

SCOPE = 100  # a parser's loss: no evidence among so many hits
RANK_BINS = ((1, 1), (2, 3), (4, 10), (11, 30), (31, 100))


class Mode(StrEnum):
    """What became of a question under a row; exclusive. ``ok_without_evidence``: right, though no hit shows it."""

    OK = "ok"
    OK_WITHOUT_EVIDENCE = "ok without evidence"
    PARSER = "parser"
    RANK = "rank"
    READER = "reader"
    ERROR = "error"


def mode_of(record: EvalRecord, scope: int = SCOPE) -> Mode:
    """Parser: no hit down to ``scope`` holds the answer. Rank: one does, below what the reader got. Reader: the rest.

    (Tessera's and PixelRAG's three failures; right answers apart where what was given didn't show them.)
    """
    if record.error is not None:
        return Mode.ERROR
    first = next((rank for rank in record.evidence if rank <= scope), None)
    if record.verdict == "CORRECT":
        return Mode.OK if first is not None and first <= record.k else Mode.OK_WITHOUT_EVIDENCE
    if first is None:
        return Mode.PARSER
    return Mode.RANK if first > record.k else Mode.READER


def failure_modes(records: Sequence[EvalRecord], items: int) -> dict[str, Any]:
    """Counts of modes, which sum to the questions; ``items``: how many were searched (``scope`` is no more)."""
    modes = Counter(mode_of(record) for record in records)
    counts = {mode.value: modes[mode] for mode in Mode}
    failures = sum(modes[mode] for mode in (Mode.PARSER, Mode.RANK, Mode.READER))
    return {"n": len(records), "failures": failures, "scope": min(SCOPE, items)} | counts


def by_kind(questions: Sequence[Question], values: Values, bootstrap: ClusterBootstrap) -> dict[str, Any]:
    """{kind of evidence: mean of ``values`` [Q] over its questions}; a question of several kinds counts in each."""
    kinds = sorted({kind for question in questions for kind in question.kinds})
    masks = {kind: np.array([kind in question.kinds for question in questions]) for kind in kinds}
    return {kind: as_json(bootstrap.mean(np.where(mask, values, np.nan))) for kind, mask in masks.items()}


def by_source(questions: Sequence[Question], values: Values, bootstrap: ClusterBootstrap) -> dict[str, Any]:
    """As ``by_kind``, by the kind of element that a question was made from; {} of questions that don't tell."""
    alone = [replace(question, kinds=(question.source,) if question.source else ()) for question in questions]
    return by_kind(alone, values, bootstrap)


def evidence_by(
    questions: Sequence[Question], figures: Mapping[str, Values], bootstrap: ClusterBootstrap
) -> dict[str, dict[str, Any]]:
    """{figure: {"kinds": by kind of the gold tiles, "sources": by source}}; ``figures`` {name: [Q]}."""
    return {
        name: {"kinds": by_kind(questions, values, bootstrap), "sources": by_source(questions, values, bootstrap)}
        for name, values in figures.items()
    }


def displacement(questions: Sequence[Question], result: RowResult, item: Callable[[str], Item]) -> dict[str, Any]:
    """How often the first item of a page, which on Wikipedia holds the infobox, stands where another should.

    ``first_item_at_rank_1``: over all questions. ``displaces``: over those whose answer some hit holds, the share with
    a first item of a page, that doesn't hold the answer, above the first hit that does. ``of_gold_page``: that first
    item is the gold page's own.
    """
    asked = [question for question in questions if result.hits.get(question.query_id)]
    at_top = sum(item(result.hits[question.query_id][0][0]).position == 0 for question in asked)
    with_evidence = displaced = of_gold = 0
    for question in asked:
        flags = (result.evidence or {}).get(question.query_id, ())
        first = next((place for place, held in enumerate(flags) if held), None)
        if first is None:
            continue
        with_evidence += 1
        above = [item(name) for name, _ in result.hits[question.query_id][:first]]
        heads = [one for one in above if one.position == 0]
        displaced += bool(heads)
        of_gold += any(one.page_id in question.gold_pages for one in heads)
    return {
        "n": len(asked),
        "first_item_at_rank_1": at_top / len(asked) if asked else None,
        "n_with_evidence": with_evidence,
        "displaces": displaced / with_evidence if with_evidence else None,
        "of_gold_page": of_gold / with_evidence if with_evidence else None,
    }


def rank_distribution(ranks: Sequence[int], depth: int) -> dict[str, int]:
    """How many of ``ranks`` (0: not found, -1: no gold, left out) lie in each bin, and beyond ``depth``."""
    counts = {}
    for low, high in RANK_BINS:
        if low <= depth:
            name = str(low) if low == high else f"{low} to {min(high, depth)}"
            counts[name] = sum(low <= rank <= min(high, depth) for rank in ranks)
    if depth > RANK_BINS[-1][1]:
        counts[f"{RANK_BINS[-1][1] + 1} to {depth}"] = sum(rank > RANK_BINS[-1][1] for rank in ranks)
    return counts | {"not found": sum(rank == 0 for rank in ranks)}


def token_sweep(cells: Sequence[Mapping[str, Any]], grader: str) -> list[dict[str, Any]]:
    """Accuracy against input tokens, a point a cell; cells that differ in k alone share a line."""
    return [
        {
            "line": f"{cell['retriever']}, {cell['delivery']}, {cell['reader']}",
            "k": cell["k"],
            "tokens": cell["tokens"]["input"],
            "out": cell["tokens"]["out"],
            "accuracy": cell["accuracy"][grader]["value"],
        }
        for cell in cells
        if cell["tokens"]["input"] is not None
    ]


def costs(records: Mapping[str, Sequence[EvalRecord]], prices: Mapping[str, Prices | None]) -> list[dict[str, Any]]:
    """Tokens of each cell in all, and what they cost; ``prices``: {cell: of its reader, or None}."""
    found = []
    for name, mine in records.items():
        tokens_in, tokens_out = (sum(getattr(r, part) for r in mine) for part in ("input_tokens", "output_tokens"))
        price = prices.get(name)
        cost = None if price is None else price.cost(tokens_in, tokens_out)
        found.append({"row": name, "input_tokens": tokens_in, "output_tokens": tokens_out, "cost": cost})
    return found


@dataclass(frozen=True)
class Latencies:
    """Seconds: of a question's search in each retriever, of its delivery and its reading in each cell."""

    search: Mapping[str, float | None]
    delivery: Mapping[str, Sequence[float]]
    reading: Mapping[str, Sequence[float]]

    def table(self) -> list[dict[str, Any]]:
        """A line a part: mean, median, 95th percentile; None where everything came from the cache."""
        lines: list[dict[str, Any]] = [
            {"part": f"search {name}", "n": None, "mean_s": value, "median_s": None, "p95_s": None}
            for name, value in self.search.items()
        ]
        for what, parts in (("delivery", self.delivery), ("reading", self.reading)):
            lines += [{"part": f"{what} {name}"} | _spread(seconds) for name, seconds in parts.items()]
        return lines


def _spread(seconds: Sequence[float]) -> dict[str, Any]:
    if not seconds:
        return {"n": 0, "mean_s": None, "median_s": None, "p95_s": None}
    median, high = (float(value) for value in np.quantile(np.array(seconds), (0.5, 0.95)))
    return {"n": len(seconds), "mean_s": float(np.mean(seconds)), "median_s": median, "p95_s": high}
