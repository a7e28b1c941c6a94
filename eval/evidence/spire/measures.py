"""What is measured of citations: how many, how many of them help, and what was paid for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.data_gen.grounded.terms import key_terms, terms
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.string_evidence import holds

HELPFUL = ("helpful_string", "helpful_grounded", "helpful_judged")
COUNTS = ("citations", "tokens", "documents", "scaffold_share")


@dataclass(frozen=True)
class Cited:
    """A citation as it was delivered: ``quote`` is its own text, ``shown`` that with its context."""

    page_id: str
    quote: str
    shown: str


@dataclass(frozen=True)
class Outcome:
    """What one question got. ``judged``: whether each citation helps, by a model; None where its judging failed.

    ``scaffold_tokens``: of ``tokens`` those that are context alone.
    """

    query_id: str
    cluster: str
    cited: tuple[Cited, ...]
    tokens: int
    scaffold_tokens: int
    flags: tuple[str, ...] = ()
    judged: tuple[bool | None, ...] = ()

    @property
    def documents(self) -> int:
        """Distinct pages cited."""
        return len({cited.page_id for cited in self.cited})


def helps_by_string(cited: Cited, answers: Sequence[str]) -> bool:
    """Whether an answer stands in the citation's own text."""
    return holds(cited.quote, answers)


def helps_grounded(cited: Cited, query: str, answers: Sequence[str]) -> bool:
    """Whether, besides, every key term of the question that is no part of an answer stands in what is shown with it."""
    wanted = key_terms(query) - {term for answer in answers for term in terms(answer)}
    return helps_by_string(cited, answers) and wanted <= set(terms(cited.shown))


def helpful(outcome: Outcome, query: str, answers: Sequence[str]) -> dict[str, list[bool | None]]:
    """{measure: [of each citation whether it helps]}; judged only where a model was asked."""
    found: dict[str, list[bool | None]] = {
        "helpful_string": [helps_by_string(cited, answers) for cited in outcome.cited],
        "helpful_grounded": [helps_grounded(cited, query, answers) for cited in outcome.cited],
    }
    return found | ({"helpful_judged": list(outcome.judged)} if outcome.judged else {})


def summary(
    outcomes: Sequence[Outcome], helping: Mapping[str, Mapping[str, Sequence[bool | None]]], bootstrap: ClusterBootstrap
) -> dict[str, Any]:
    """A system's entry of metrics.json. ``helping`` {query_id: {measure: values}}.

    Means a question with cluster-bootstrap intervals; ratios are of sums (helpful citations / citations), their
    interval by resampling the same clusters.
    """
    entry: dict[str, Any] = {"n_questions": len(outcomes), "n_with_citation": sum(bool(one.cited) for one in outcomes)}
    for name in COUNTS:
        entry[name] = _estimate(bootstrap.mean(per_question(outcomes, name)))
    entry["citations_total"] = sum(len(one.cited) for one in outcomes)
    for name in HELPFUL:
        values = [(one.cluster, value) for one in outcomes for value in helping[one.query_id].get(name, ())]
        known = [(cluster, float(value)) for cluster, value in values if value is not None]
        if values:
            entry[name] = {"total": sum(value for _, value in known), "unjudged": len(values) - len(known)} | (
                _ratio(known, bootstrap)
            )
    flags = [flag for one in outcomes for flag in one.flags]
    entry["flags"] = {flag: flags.count(flag) for flag in sorted(set(flags))}
    return entry


def per_question(outcomes: Sequence[Outcome], name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """[Q] of one of COUNTS; the share of scaffold only where something was delivered."""
    values = {
        "citations": [float(len(one.cited)) for one in outcomes],
        "tokens": [float(one.tokens) for one in outcomes],
        "documents": [float(one.documents) for one in outcomes],
        "scaffold_share": [one.scaffold_tokens / one.tokens if one.tokens else np.nan for one in outcomes],
    }
    return np.array(values[name], np.float64)


def _ratio(known: Sequence[tuple[str, float]], like: ClusterBootstrap) -> dict[str, Any]:
    """Share of citations that help; its interval resamples clusters of citations."""
    if not known:
        return {"ratio": None, "low": None, "high": None, "n_citations": 0}
    own = ClusterBootstrap(
        [cluster for cluster, _ in known], resamples=like.resamples, seed=like.seed, confidence=like.confidence
    )
    found = own.mean(np.array([value for _, value in known], np.float64))
    return {"ratio": found.value, "low": found.low, "high": found.high, "n_citations": len(known)}


def _estimate(found: Any) -> dict[str, Any]:
    return {"mean": found.value, "low": found.low, "high": found.high, "n_questions": found.n_questions}


def ratio_difference(
    left: Sequence[tuple[str, int, int]],
    right: Sequence[tuple[str, int, int]],
    *,
    resamples: int,
    seed: int,
    confidence: float,
) -> dict[str, Any]:
    """Difference of two ratios of sums, paired by cluster. Of each question: (cluster, helpful, citations).

    No interval is given where one cluster has all the citations: there is nothing to resample.
    """
    clusters = sorted({cluster for cluster, _, _ in (*left, *right)})
    place = {cluster: index for index, cluster in enumerate(clusters)}
    sums = np.zeros((4, len(clusters)))
    for side, rows in enumerate((left, right)):
        for cluster, helps, cited in rows:
            sums[2 * side : 2 * side + 2, place[cluster]] += (helps, cited)
    value = _quotients(sums.sum(axis=1, keepdims=True))[0]
    generator = np.random.Generator(np.random.PCG64(seed))
    drawn = generator.multinomial(len(clusters), np.full(len(clusters), 1 / len(clusters)), size=resamples)
    found = _quotients(sums @ drawn.T)
    found = found[np.isfinite(found) & ((sums[1] + sums[3] > 0).sum() > 1)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(found, (tail, 1 - tail)) if len(found) else (np.nan, np.nan)
    numbers = {"value": value, "low": low, "high": high}
    return {name: float(number) if np.isfinite(number) else None for name, number in numbers.items()}


def _quotients(sums: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray[Any, Any] = sums[0] / sums[1] - sums[2] / sums[3]
    return found
