"""What a filter stage made of each pair, and the files and counts that follow from that alone.

``outcomes.jsonl`` has one line a pair, kept or dropped, with what the decision rests on; ``pairs.jsonl`` holds the kept
ones in their order. Parts of a stage (``shard: i/n``) put together by position give the files of one run.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts
from tilewright.data_gen.pair_files import read_pair_file
from tilewright.data_gen.records import QAPair, write_jsonl

KEPT = "kept"
ERROR = "error"  # every try of its call failed; within max_error_share the stage goes on without the pair
PAIRS, OUTCOMES = "pairs.jsonl", "outcomes.jsonl"


@dataclass(frozen=True)
class Outcome:
    """``outcome``: KEPT, or why the pair was dropped. ``position``: of the pair in the stage's input, from 0.

    ``facts``: what the decision rests on ({"answer": ..., "verdict": ...}), JSON-able.
    """

    position: int
    query_id: str
    page_id: str
    source_type: str
    outcome: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_input_pairs(folder: Path, stage: str) -> list[QAPair]:
    """The pairs of a stage's output folder. Raises InputError if there are none or one is broken."""
    path = folder / PAIRS
    if not path.is_file():
        raise InputError(f"{path} is missing: wanted the output folder of {stage}")
    pairs = read_pair_file(path)
    if not pairs:
        raise InputError(f"{path} has no pair: wanted at least one; see the counts in the manifest beside it")
    return pairs


def outcome_of(position: int, pair: QAPair, outcome: str, facts: Mapping[str, Any] | None = None) -> Outcome:
    """The outcome of ``pair``, which stands at ``position``."""
    return Outcome(position, pair.query_id, pair.page_id, pair.source_type, outcome, facts or {})


def write_outcomes(out: Path, pairs: Mapping[str, QAPair], outcomes: Iterable[Outcome]) -> Counts:
    """Write both files in order of position and return the counts; ``pairs``: {query_id: pair} of the outcomes."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.position)
    write_jsonl(out / PAIRS, [pairs[item.query_id] for item in ordered if item.outcome == KEPT])
    write_jsonl(out / OUTCOMES, ordered)
    return counts_of(ordered)


def counts_of(outcomes: Sequence[Outcome]) -> Counts:
    """Pairs, kept and dropped by reason, in all and by kind of evidence."""
    kinds = sorted({item.source_type for item in outcomes})
    table = {kind: _tally(item.outcome for item in outcomes if item.source_type == kind) for kind in kinds}
    kept = [item for item in outcomes if item.outcome == KEPT]
    return {
        **_tally(item.outcome for item in outcomes),
        "pages_with_pairs": len({item.page_id for item in kept}),
        "by_type": table,
    }


def _tally(names: Iterable[str]) -> dict[str, int]:
    found = Counter(names)
    dropped = {f"dropped_{name}": count for name, count in sorted(found.items()) if name != KEPT}
    return {"pairs": found.total(), "kept": found[KEPT], **dropped}


def read_outcomes(path: Path) -> list[Outcome]:
    """The outcomes of a file. Raises InputError with file and line for what is none."""
    outcomes = []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                outcomes.append(_sound(Outcome(**json.loads(line))))
            except (ValueError, TypeError, RecursionError) as error:
                shown = line[:80].decode("utf-8", "replace")
                raise InputError(f"{path}:{number}: wanted an outcome, found {shown!r} ({error})") from error
    return outcomes


def _sound(outcome: Outcome) -> Outcome:
    """``outcome``, its types checked; TypeError."""
    names = (outcome.query_id, outcome.page_id, outcome.source_type, outcome.outcome)
    if type(outcome.position) is not int or not all(isinstance(name, str) for name in names):
        raise TypeError("position: wanted an integer; ids and names: texts")
    if not isinstance(outcome.facts, dict):
        raise TypeError("facts: wanted an object")
    return outcome
