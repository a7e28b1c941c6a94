"""From the marks of a review page to precision: the share of good pairs, by outcome, with an interval."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.data_gen.pair_outcomes import KEPT
from tilewright.data_gen.records import from_json
from tilewright.eval.bootstrap import NOT_ESTIMABLE, WILSON, ClusterBootstrap, Estimate, wilson

GOOD, BAD, UNSURE = "good", "bad", "unsure"
RESAMPLES, SEED = 10_000, 0


@dataclass(frozen=True)
class Mark:
    """What a person made of a pair. ``outcome``: "kept", or why it was dropped; ``sample``: digest of the sample."""

    query_id: str
    mark: str
    note: str
    outcome: str
    page_id: str
    sample: str


@dataclass(frozen=True)
class Marks:
    """The marks of some files, one a query. ``replaced``: earlier marks of a query that a later one takes the place of.

    ``changed``: how many of those were another mark.
    """

    marks: tuple[Mark, ...]
    replaced: int = 0
    changed: int = 0


@dataclass(frozen=True)
class Precision:
    """Share of good ones among the pairs marked good or bad, with its interval (None: not estimable).

    ``if_unsure_bad`` and ``if_unsure_good``: the share and its interval over all marks, were every unsure one bad or
    good: what the unsure ones can change at most. ``pages``: how many pages all marks come from.
    """

    good: int
    bad: int
    unsure: int
    pages: int
    share: float | None
    low: float | None
    high: float | None
    method: str
    if_unsure_bad: Estimate
    if_unsure_good: Estimate


def read_marks(*paths: Path) -> Marks:
    """The marks of the files, read in this order; of a query marked twice the last mark counts.

    Raises InputError, with file and line, for what is no mark, and for files without any.
    """
    last: dict[str, Mark] = {}
    replaced = changed = 0
    for path in paths:
        for mark in _lines(path):
            earlier = last.pop(mark.query_id, None)  # it moves to the end, as if it had not been there
            replaced += earlier is not None
            changed += earlier is not None and earlier.mark != mark.mark
            last[mark.query_id] = mark
    if not last:
        raise InputError(f"{', '.join(map(str, paths))}: wanted at least one mark, found none")
    return Marks(tuple(last.values()), replaced, changed)


def _lines(path: Path) -> list[Mark]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"{path}: wanted a file of marks ({error.strerror})") from error
    return [_mark(line, f"{path}:{number}") for number, line in enumerate(lines, start=1)]


def _mark(line: bytes, where: str) -> Mark:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{where}: wanted a mark as JSON, found {line[:80].decode('utf-8', 'replace')!r} ({error})"
        ) from error
    mark = from_json(Mark, data, where)
    if mark.mark not in (GOOD, BAD, UNSURE):
        raise InputError(f"{where}: mark: wanted {GOOD}, {BAD} or {UNSURE}, found {mark.mark!r}")
    for name in ("query_id", "outcome", "page_id"):
        if not getattr(mark, name):
            raise InputError(f"{where}: {name}: wanted a name, found ''")
    return mark


def precision(marks: Sequence[Mark], confidence: float = 0.95) -> Precision:
    """The precision of ``marks``, unsure ones counted apart.

    Wilson's interval where every page has one mark; else a cluster bootstrap over pages, since pairs of a page aren't
    independent (a share of 0 or 1 gets Wilson's with one trial a page). Raises ValueError for another ``confidence``
    than between 0 and 1.
    """
    if not 0 < confidence < (1 + confidence) / 2 < 1:  # the second in floating point: its quantile has to be finite
        raise ValueError(f"wanted a confidence between 0 and 1, found {confidence}")
    counts = {name: sum(mark.mark == name for mark in marks) for name in (GOOD, BAD, UNSURE)}
    decided = _share(marks, {GOOD: 1.0, BAD: 0.0}, confidence)
    return Precision(
        counts[GOOD],
        counts[BAD],
        counts[UNSURE],
        len({mark.page_id for mark in marks}),
        decided.value,
        decided.low,
        decided.high,
        decided.method,
        if_unsure_bad=_share(marks, {GOOD: 1.0, BAD: 0.0, UNSURE: 0.0}, confidence),
        if_unsure_good=_share(marks, {GOOD: 1.0, BAD: 0.0, UNSURE: 1.0}, confidence),
    )


def _share(marks: Sequence[Mark], worth: dict[str, float], confidence: float) -> Estimate:
    """Mean worth of the marks that have one."""
    counted = [mark for mark in marks if mark.mark in worth]
    pages = [mark.page_id for mark in counted]
    values = [worth[mark.mark] for mark in counted]
    if not counted:
        return Estimate(None, None, None, NOT_ESTIMABLE, 0, 0)
    if len(set(pages)) < len(pages):
        bootstrap = ClusterBootstrap(pages, resamples=RESAMPLES, seed=SEED, confidence=confidence)
        return bootstrap.mean(np.array(values, dtype=np.float64))
    share = math.fsum(values) / len(values)
    low, high = wilson(math.fsum(values), len(values), confidence)
    low, high = min(low, share), max(high, share)  # at shares of 0 and 1 rounding may put a bound beside it
    return Estimate(share, low, high, WILSON, len(values), len(pages))


def precision_by_outcome(marks: Sequence[Mark], confidence: float = 0.95) -> dict[str, Precision]:
    """{outcome: precision of its marks}, "kept" first. Of dropped pairs it is the share that was wrongly dropped."""
    outcomes = sorted({mark.outcome for mark in marks}, key=lambda name: (name != KEPT, name))
    return {name: precision([mark for mark in marks if mark.outcome == name], confidence) for name in outcomes}
