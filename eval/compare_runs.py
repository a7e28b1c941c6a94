"""Two runs side by side: paired differences of every row that both have, over the questions that both asked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import EvalRecord, read_jsonl
from tilewright.eval.bootstrap import ClusterBootstrap, Values
from tilewright.eval.metrics import LEVELS, compared
from tilewright.eval.outputs import RECORDS
from tilewright.eval.scoring import correct, scores_of


def compare_runs(left: Path, right: Path, metrics: tuple[Mapping[str, Any], Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry a row and figure: {row, figure, left, right, difference...}, right minus left, p-values by Holm.

    Figures of a row with a reader are those of the graders that both runs have; of one without, recall at each k of
    both. Raises InputError if the runs share no row, or questions of one id differ.
    """
    shared = [name for name in _rows(metrics[0]) if name in _rows(metrics[1])]
    if not shared:
        raise InputError(
            f"{left} and {right}: wanted a row that both have, found {_rows(metrics[0])} and {_rows(metrics[1])}"
        )
    found: list[dict[str, Any]] = []
    for name in shared:
        before, after = (_records(folder, name) for folder in (left, right))
        ids = [query_id for query_id in before if query_id in after]
        _check_same(ids, before, after, name)
        if not ids:
            continue
        pairs = [before[query_id] for query_id in ids], [after[query_id] for query_id in ids]
        bootstrap = _bootstrap(pairs[0], metrics[0])
        for figure, values in _figures(pairs, metrics).items():
            entry = {"row": name, "figure": figure, "n_shared": len(ids)}
            entry |= {side: _mean(one) for side, one in zip(("left", "right"), values, strict=True)}
            found.append(entry | compared(bootstrap, values[1], values[0]))
    correct(found)
    return found


def _rows(metrics: Mapping[str, Any]) -> list[str]:
    ran = [name for name, row in metrics["rows"].items() if row["status"] != "not run" and "page" in row]
    return [*ran, *(cell["name"] for cell in metrics["readers"] if cell["status"] != "not run")]


def _records(folder: Path, name: str) -> dict[str, EvalRecord]:
    return {record.query_id: record for record in read_jsonl(folder / RECORDS / f"{name}.jsonl", EvalRecord)}


def _check_same(
    ids: Sequence[str], before: Mapping[str, EvalRecord], after: Mapping[str, EvalRecord], name: str
) -> None:
    other = next((query_id for query_id in ids if before[query_id].query != after[query_id].query), None)
    if other is not None:
        raise InputError(f"{name}: question {other} is another in the second run: wanted runs on the same questions")


def _bootstrap(records: Sequence[EvalRecord], metrics: Mapping[str, Any]) -> ClusterBootstrap:
    settings = {name: metrics["settings"][name] for name in ("resamples", "seed", "confidence")}
    return ClusterBootstrap([record.cluster for record in records], **settings)


def _figures(
    pairs: tuple[Sequence[EvalRecord], Sequence[EvalRecord]], metrics: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> dict[str, tuple[Values, Values]]:
    if pairs[0][0].scores or pairs[0][0].k:
        graders = [name for name in metrics[0]["graders"]["columns"] if name in metrics[1]["graders"]["columns"]]
        return {f"accuracy: {name}": (scores_of(pairs[0], name), scores_of(pairs[1], name)) for name in graders}
    ks = [k for k in metrics[0]["settings"]["ks"] if k in metrics[1]["settings"]["ks"]]
    return {
        f"recall@{k} by {level}": (_found(pairs[0], level, k), _found(pairs[1], level, k))
        for level in LEVELS
        for k in ks
    }


def _found(records: Sequence[EvalRecord], level: str, k: int) -> Values:
    """[Q]: 1 if gold is among the first ``k`` hits; NaN where the search failed or nothing is gold."""
    ranks = (None if record.error else record.ranks.get(level) for record in records)
    values = (np.nan if rank is None else float(0 < rank <= k) for rank in ranks)
    return np.fromiter(values, np.float64, len(records))


def _mean(values: Values) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None
