"""Rows that differ by their training seed alone: an arm's mean and spread over seeds, and arms side by side.

Two kinds of chance are kept apart. ``sd`` is the spread of training: of the same figure over runs of several seeds. The
intervals are of questions: each question's value is first averaged over the seeds, then pages are resampled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.data_gen.records import EvalRecord
from tilewright.eval.bootstrap import ClusterBootstrap, Values
from tilewright.eval.metrics import Measured, as_json, compared
from tilewright.eval.scoring import correct_by_figure, scores_of
from tilewright.eval.statistics_cells import over_seeds

ACCURACY = "accuracy"


@dataclass(frozen=True)
class SeedArms:
    """``arms``: {arm: its rows, one a seed}, retrievers or reader cells; ``compare``: pairs [arm, against]."""

    arms: Mapping[str, Sequence[str]] = field(default_factory=dict)
    compare: Sequence[tuple[str, str]] = ()

    def check(self, retrievers: Sequence[str], cells: Sequence[str]) -> None:
        """Raise ValueError for a row that there isn't, one that stands twice, an arm of both kinds or without rows."""
        taken: set[str] = set()
        for arm, rows in self.arms.items():
            if not rows or not (set(rows) <= set(retrievers) or set(rows) <= set(cells)):
                known = [*retrievers, *cells]
                raise ValueError(f"seeds.{arm}: wanted retrievers or reader cells of this run ({known}), found {rows}")
            if len(set(rows)) < len(rows) or taken & set(rows):
                raise ValueError(f"seeds.{arm}: wanted rows that stand in one arm, once, found {list(rows)}")
            taken |= set(rows)
        for pair in self.compare:
            unknown = next((arm for arm in pair if arm not in self.arms), None)
            if unknown is not None:
                raise ValueError(f"compare_seeds: wanted arms of `seeds` ({list(self.arms)}), found {unknown!r}")
            if len({self.arms[arm][0] in cells for arm in pair}) > 1:
                raise ValueError(f"compare_seeds: wanted two arms of retrievers or two of cells, found {list(pair)}")

    def metrics(
        self,
        retrieval: tuple[ClusterBootstrap, Mapping[str, Measured]],
        reading: tuple[ClusterBootstrap, Mapping[str, Measured]],
    ) -> dict[str, Any]:
        """``arms`` and ``differences`` of metrics.json; an arm with a row that wasn't run is left out, and named.

        Each side is a bootstrap and {row: level: figure: values [Q]}. A question counts in an arm if it does in all
        of its rows.
        """
        arms: dict[str, Any] = {}
        means: dict[str, tuple[ClusterBootstrap, Measured]] = {}
        for arm, rows in self.arms.items():
            bootstrap, measured = retrieval if any(row in retrieval[1] for row in rows) else reading
            missing = [row for row in rows if row not in measured]
            if missing:
                arms[arm] = {"rows": list(rows), "not_run": missing}
                continue
            mean = _mean([measured[row] for row in rows])
            means[arm] = bootstrap, mean
            arms[arm] = {"rows": list(rows)} | {
                level: {
                    name: as_json(bootstrap.mean(values)) | _spread([measured[row][level][name] for row in rows])
                    for name, values in figures.items()
                }
                for level, figures in mean.items()
            }
        return {"arms": arms, "differences": self._differences(means)}

    def _differences(self, means: Mapping[str, tuple[ClusterBootstrap, Measured]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [
            {"row": left, "against": right}
            | {
                level: {
                    name: compared(
                        means[left][0], _snapped(values, means[right][1][level][name]), means[right][1][level][name]
                    )
                    for name, values in figures.items()
                }
                for level, figures in means[left][1].items()
                if level in means[right][1]
            }
            for left, right in self.compare
            if left in means and right in means
        ]
        correct_by_figure(found)
        return found


def reading_values(
    bootstrap: ClusterBootstrap, records: Mapping[str, Sequence[EvalRecord]], graders: Sequence[str]
) -> tuple[ClusterBootstrap, dict[str, Measured]]:
    """The bootstrap, and {cell: ``accuracy``: grader: [Q]}."""
    return bootstrap, {
        name: {ACCURACY: {grader: scores_of(found, grader) for grader in graders}} for name, found in records.items()
    }


def _mean(runs: Sequence[Measured]) -> Measured:
    """Each question's values averaged over the runs, of the figures that all have; NaN where one of them failed."""
    return {
        level: {name: _average([run[level][name] for run in runs]) for name in figures}
        for level, figures in runs[0].items()
        if all(level in run for run in runs)
    }


def _average(values: Sequence[Values]) -> Values:
    average: Values = np.stack(values).mean(axis=0)
    return average


def _snapped(values: Values, like: Values) -> Values:
    """``values``, where they differ from ``like`` by rounding alone equal to it: else it counts as gained or lost."""
    return np.where(np.isclose(values, like, rtol=0, atol=1e-12), like, values)


def _spread(values: Sequence[Values]) -> dict[str, Any]:
    """``n_seeds``, ``sd`` and ``by_seed``: of each seed's own figure, over the questions that count in all of them."""
    counts = np.isfinite(np.stack(values)).all(axis=0)
    if not counts.any():
        return {"n_seeds": len(values), "sd": None, "by_seed": None}
    figures = [float(one[counts].mean()) for one in values]
    return {"n_seeds": len(values), "sd": over_seeds(figures).sd, "by_seed": figures}
