"""Citable sentences of a view between labels, and what a model's reply names of them.

Labels are put in after all that a page says was escaped, so a page can neither open nor close one, also not by letters
from several elements.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.eval.evidence.spire.context import with_context
from tilewright.eval.evidence.spire.document import Document
from tilewright.eval.evidence.spire.markdown import MARKS, render

_MARK, _MARK_END = MARKS[0], MARKS[1]  # characters that the renderer takes out of the page's own text
_PLACED = re.compile(f"{_MARK}(/?)([0-9]+){_MARK_END}")
_LOOKS_LIKE_LABEL = re.compile(r"<(?=\s*/?\s*lab_)", re.IGNORECASE)
_NAMED = re.compile(r"(?<![0-9A-Za-z_])lab_([0-9]{1,9})(?![0-9])")
_NONE = re.compile(r"\W*(?:none|no(?: labels?)?|n/?a|\[\s*\])\W*", re.IGNORECASE)


@dataclass(frozen=True)
class Labelled:
    """``text`` with a label around each of ``seeds``, which are numbered from 1 in their order."""

    text: str
    seeds: tuple[int, ...]


def labelled(document: Document, seeds: Sequence[int]) -> Labelled:
    """The view of ``seeds`` with its global context; the seeds alone are labelled, in document order."""
    ordered = tuple(sorted(set(seeds)))
    around: dict[int, tuple[str, str]] = {}
    for label, number in enumerate(ordered, start=1):
        leaves = document.seeds[number].leaves
        for leaf, before, behind in ((leaves[0], _mark(label), ""), (leaves[-1], "", _mark(-label))):
            known = around.get(leaf, ("", ""))
            around[leaf] = (known[0] + before, behind + known[1])
    text = render(document, with_context(document, document.leaves_of(ordered)), around=around)
    return Labelled(_PLACED.sub(lambda found: f"<{found[1]}lab_{found[2]}>", escaped(text)), ordered)


def escaped(text: str) -> str:
    """``text`` in which nothing begins like a label."""
    return _LOOKS_LIKE_LABEL.sub("&lt;", text)


def _mark(label: int) -> str:
    return f"{_MARK}{'/' if label < 0 else ''}{abs(label)}{_MARK_END}"


@dataclass(frozen=True)
class Named:
    """Labels of a reply, each once, in document order; ``unknown``: how many it names that there are not."""

    labels: tuple[int, ...]
    unknown: int


def parse_labels(reply: str, count: int) -> Named | None:
    """The labels 1 to ``count`` that ``reply`` names; none if it says none; None for a reply that says neither."""
    found = [int(number) for number in _NAMED.findall(reply)]
    if not found:
        return Named((), 0) if not reply.strip() or _NONE.fullmatch(reply) else None
    known = {number for number in found if 1 <= number <= count}
    return Named(tuple(sorted(known)), len(set(found) - known))


def seeds_named(view: Labelled, named: Named) -> tuple[int, ...]:
    """The seeds that labels stand for."""
    return tuple(view.seeds[label - 1] for label in named.labels)
