"""Views of documents: selected sentences with what they need, rendered once a document, within a budget of tokens."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tilewright.eval.evidence.spire.context import with_context
from tilewright.eval.evidence.spire.document import Document
from tilewright.eval.evidence.spire.markdown import render

CountTokens = Callable[[str], int]
Misfit = Literal["skip", "stop"]


@dataclass(frozen=True)
class View:
    """``seeds`` of ``document``, by number, with their global context unless ``bare``; ``text`` as a reader gets it."""

    document: Document
    seeds: frozenset[int]
    bare: bool
    text: str
    tokens: int


def view_of(document: Document, seeds: Iterable[int], count: CountTokens, *, bare: bool = False) -> View:
    """Render(Subdoc(D, P and G(P))), or with ``bare`` Render(Subdoc(D, P))."""
    chosen = frozenset(seeds)
    leaves = document.leaves_of(chosen)
    text = render(document, leaves if bare else with_context(document, leaves))
    return View(document, chosen, bare, text, count(text))


def seed_text(document: Document, seed: int, *, bare: bool = False) -> str:
    """What is embedded for a seed: its own view."""
    leaves = document.leaves_of([seed])
    return render(document, leaves if bare else with_context(document, leaves))


@dataclass(frozen=True)
class Candidate:
    """A sentence that may be cited: ``seed`` of the document ``page_id``."""

    page_id: str
    seed: int


def admit(
    candidates: Sequence[Candidate],
    documents: Callable[[str], Document],
    budget: int,
    count: CountTokens,
    *,
    bare: bool = False,
    misfit: Misfit = "skip",
) -> dict[str, View]:
    """{page_id: merged view} of the candidates that fit into ``budget`` tokens together, taken in their order.

    Views of one document are merged, so that what they share is paid once; a merged view is what is counted. ``skip``:
    one that doesn't fit is passed over, and passes go on until one admits none; ``stop``: it ends the walk.
    """
    views: dict[str, View] = {}
    left = list(dict.fromkeys(candidates))
    total = 0
    while left:
        waiting: list[Candidate] = []
        for place, candidate in enumerate(left):
            before = views.get(candidate.page_id)
            chosen = before.seeds | {candidate.seed} if before else {candidate.seed}
            view = view_of(documents(candidate.page_id), chosen, count, bare=bare)
            new_total = total - (before.tokens if before else 0) + view.tokens
            if new_total <= budget:
                views[candidate.page_id], total = view, new_total
            elif misfit == "stop":
                return views
            else:
                waiting += left[place : place + 1]
        if len(waiting) == len(left):
            break
        left = waiting
    return views
