"""The evidence trace: through which stages a question's evidence comes whole, and where it is lost.

source (the page's text) -> extraction (the row's text of the page) -> stored (one item holds all of a fragment) ->
candidates (one of those ranked) -> reader (one of those given). Exactly, with spaces collapsed, and tolerantly, as
evidence by string is read: without case, marks and diacritics.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilewright.eval.string_evidence import evidence_form

READER = "reader"
STAGES = ("source", "extraction", "stored", "candidates", READER)


@dataclass(frozen=True)
class Passage:
    """What evidence has to come through: texts of a question's gold pages at each stage; None: no such stage."""

    source: Sequence[str] | None = None
    extraction: Sequence[str] | None = None
    stored: Sequence[str] | None = None
    candidates: Sequence[str] | None = None
    reader: Sequence[str] | None = None


@dataclass(frozen=True)
class Trace:
    """For each stage whether the fragment is whole in it: ``exact`` and ``tolerant`` {stage: bool}."""

    exact: Mapping[str, bool]
    tolerant: Mapping[str, bool]

    @property
    def lost_at(self) -> str:
        """The first stage that doesn't have it tolerantly; "" if all have it."""
        return next((stage for stage, whole in self.tolerant.items() if not whole), "")

    def then(self, other: "Trace") -> "Trace":
        """Both, where ``other`` is of later stages."""
        return Trace({**self.exact, **other.exact}, {**self.tolerant, **other.tolerant})


def trace(spellings: Sequence[str], passage: Passage) -> Trace:
    """The trace of one quoted fragment. A stage has it only if one of its texts has all of one of its ``spellings``."""
    stages = {stage: texts for stage in STAGES if (texts := getattr(passage, stage)) is not None}
    return Trace(
        {stage: _stands_in(spellings, texts, _collapsed) for stage, texts in stages.items()},
        {stage: _stands_in(spellings, texts, evidence_form) for stage, texts in stages.items()},
    )


def shares(traces: Iterable[Trace]) -> dict[str, Any]:
    """{exact, tolerant: {stage: share of the fragments that are whole at it}}, and the number ``n`` of fragments.

    Of these, tolerantly: ``lost`` {stage: how many it is the first to lack, of those that the reader lacks}, and how
    many are ``recovered``: the reader has them though a stage before lacks them, for a delivery went back to the page.
    """
    found = list(traces)
    lost = Counter(one.lost_at for one in found if not one.tolerant[READER])
    return {
        "n": len(found),
        **{kind: _whole([getattr(one, kind) for one in found]) for kind in ("exact", "tolerant")},
        "lost": {stage: lost[stage] for stage in STAGES},
        "recovered": sum(one.tolerant[READER] and bool(one.lost_at) for one in found),
    }


def _whole(found: Sequence[Mapping[str, bool]]) -> dict[str, float]:
    """{stage: share of those that have this stage}; stages that none has are left out."""
    made = {}
    for stage in STAGES:
        here = [one[stage] for one in found if stage in one]
        if here:
            made[stage] = sum(here) / len(here)
    return made


def _stands_in(spellings: Sequence[str], texts: Sequence[str], form: Callable[[str], str]) -> bool:
    wanted = [made for made in map(form, spellings) if made.strip()]
    return any(one in form(text) for text in texts for one in wanted)


@lru_cache(maxsize=16_384)
def _collapsed(text: str) -> str:
    return " ".join(text.split())
