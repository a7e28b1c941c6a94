"""The tables that a part of the results can show, by name, from the files of finished stages."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.configs.digests import LOGS
from tilewright.configs.errors import InputError
from tilewright.configs.lineage import Finished
from tilewright.eval import reader_report
from tilewright.eval.metrics import JUDGED, LEVELS, STRING
from tilewright.eval.report import analysis_tables
from tilewright.eval.report.judged_table import judged_tables
from tilewright.eval.report.markup import Markup, table
from tilewright.eval.report.seed_tables import arm_difference_table, arms_table
from tilewright.eval.report.tables import difference_table, measures_table, reader_table, recall_table
from tilewright.eval.seed_arms import ACCURACY
from tilewright.eval.wording import NONE, plain

Metrics = Mapping[str, Any]
_LEVELS = (*LEVELS, STRING)


def tables_of(names: Sequence[str], stages: Sequence[Finished]) -> list[Markup]:
    """The tables of these names. Of evaluate or evaluate_reader: one stage alone; ``counts`` and ``calls``: any.

    Raises InputError for a name that these stages don't have, or a table without rows.
    """
    known: dict[str, Callable[[], Markup]] = {"counts": lambda: _counts(stages), "calls": lambda: _calls(stages)}
    if len(stages) == 1 and stages[0].stage in _BY_STAGE:
        made = _BY_STAGE[stages[0].stage](json.loads((stages[0].folder / "metrics.json").read_text(encoding="utf-8")))
        known |= {name: lambda one=one: one for name, one in made.items()}  # type: ignore[misc]
    tables = []
    for name in names:
        found = known[name]() if name in known else Markup("")
        if not found:
            what = "without rows" if name in known else f"unknown; there are {sorted(known)}"
            raise InputError(f"{stages[0].folder}: table {name!r} is {what}")
        tables.append(found)
    return tables


def _of_evaluation(metrics: Metrics) -> dict[str, Markup]:
    tables = {
        "readers": reader_table(metrics) if metrics["readers"] else Markup(""),
        "reader_differences": analysis_tables.answer_difference_table(metrics),
        "delivery_measures": measures_table(metrics),
    }
    for level in (*_LEVELS, JUDGED, ACCURACY):
        tables[f"arms_{level}"] = arms_table(metrics, level)
        tables[f"arm_differences_{level}"] = arm_difference_table(metrics, level)
    judged = [*judged_tables(metrics), Markup(""), Markup("")]
    tables[f"retrieval_{JUDGED}"], tables[f"differences_{JUDGED}"] = judged[:2]
    for level in _LEVELS:
        measured = any(level in row for row in metrics["rows"].values())
        tables[f"retrieval_{level}"] = recall_table(metrics, level) if measured else Markup("")
        tables[f"differences_{level}"] = difference_table(metrics, level)
    return tables | analysis_tables.by_name(metrics)


_BY_STAGE = {"evaluate": _of_evaluation, "evaluate_reader": reader_report.by_name}


def _counts(stages: Sequence[Finished]) -> Markup:
    rows = [
        [stage.stage, stage.folder.name, name, value]
        for stage in stages
        for name, value in _flat(stage.manifest["counts"])
    ]
    return table(["Stage", "Folder", "Count", "Value"], rows, "What stages counted", numbers_from=3)


def _flat(counts: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """(name, value) of all counts, those of a mapping after its own name."""
    for name, value in counts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}, ")
        else:
            yield f"{above}{name}".replace("_", " "), _short(value)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else plain(value)


def _calls(stages: Sequence[Finished]) -> Markup:
    """The ledgers of stages that asked a language model, a line for each purpose.

    A stage whose parts keep accounts of their own has them as {part}.ledger.json beside its own.
    """
    rows: list[list[object]] = []
    for stage in stages:
        for path in sorted((stage.folder / LOGS).glob("*ledger.json")):
            part = path.name.removesuffix("ledger.json").removesuffix(".").replace(".", " ")
            ledger = json.loads(path.read_text(encoding="utf-8"))
            for purpose, sums in ledger["by_purpose"].items():
                title = f"{purpose} ({part})" if part else purpose
                rows.append([stage.stage, title, *[_short(sums[name]) or NONE for name in _CALLS]])
    head = ["Stage", "Purpose", *[name.replace("_", " ") for name in _CALLS]]
    return table(head, rows, "Calls of a language model, retries among them", numbers_from=2) if rows else Markup("")


_CALLS = ("calls", "finished", "cached", "retries", "in_flight_at_kill", "failures", "unusable", "input_tokens",
          "output_tokens", "cost")  # fmt: skip
