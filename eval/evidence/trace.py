"""The evidence trace: through which stages a question's evidence comes whole, and where it is lost.

source (the page's text) -> extraction (the row's text of the page) -> stored (one item holds all of a fragment) ->
candidates (one of those ranked) -> reader (one of those given). Exactly, with spaces collapsed, and tolerantly, as
evidence by string is read: without case, marks and diacritics.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.eval.string_evidence import evidence_form

STAGES = ("source", "extraction", "stored", "candidates", "reader")


@dataclass(frozen=True)
class Passage:
    """What evidence has to come through: texts of a question's gold pages at each stage; None: no such stage."""

    source: Sequence[str]
    extraction: Sequence[str] | None
    stored: Sequence[str]
    candidates: Sequence[str]
    reader: Sequence[str]


@dataclass(frozen=True)
class Trace:
    """For each stage whether the fragment is whole in it: ``exact`` and ``tolerant`` {stage: bool}."""

    exact: Mapping[str, bool]
    tolerant: Mapping[str, bool]

    @property
    def lost_at(self) -> str:
        """The first stage that doesn't have it tolerantly; "" if the reader has it."""
        return next((stage for stage, whole in self.tolerant.items() if not whole), "")


def trace(fragment: str, passage: Passage) -> Trace:
    """The trace of one quoted ``fragment``. A stage has it only if one of its texts has all of it."""
    stages = {stage: texts for stage in STAGES if (texts := getattr(passage, stage)) is not None}
    return Trace(
        {stage: _stands_in(fragment, texts, _collapsed) for stage, texts in stages.items()},
        {stage: _stands_in(fragment, texts, _tolerant) for stage, texts in stages.items()},
    )


def shares(traces: Iterable[Trace]) -> dict[str, dict[str, float]]:
    """{exact, tolerant: {stage: share of the fragments that are whole at it and at all before}} and ``n``."""
    found = list(traces)
    made: dict[str, dict[str, float]] = {"exact": {}, "tolerant": {}, "n": {"fragments": len(found)}}
    for kind in ("exact", "tolerant"):
        for stage in STAGES:
            reached = [_reached(getattr(one, kind), stage) for one in found if stage in getattr(one, kind)]
            if reached:
                made[kind][stage] = sum(reached) / len(reached)
    return made


def _reached(whole: Mapping[str, bool], stage: str) -> bool:
    before = STAGES[: STAGES.index(stage) + 1]
    return all(whole[name] for name in before if name in whole)


def _stands_in(fragment: str, texts: Sequence[str], form: Callable[[str], str]) -> bool:
    wanted = form(fragment)
    return bool(wanted.strip()) and any(wanted in form(text) for text in texts)


def _collapsed(text: str) -> str:
    return " ".join(text.split())


def _tolerant(text: str) -> str:
    return evidence_form(text)
