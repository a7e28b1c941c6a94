"""SPIRE's answer to a question: ranked sentences to views within a budget, and what is measured of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tilewright.configs.bounds import check_bounds
from tilewright.eval.evidence.spire.document import Document
from tilewright.eval.evidence.spire.labellers import Asked, Labeller
from tilewright.eval.evidence.spire.local_walk import LOCAL_TOKENS, LocalView, local_view
from tilewright.eval.evidence.spire.views import Candidate, CountTokens, Misfit, View, admit

Mode = Literal["embedding", "noctx", "full"]
LABELS_FAILED, UNKNOWN_LABELS, SEED_OVER_BUDGET = "label_filter_failed", "unknown_labels", "seed_over_local_budget"


@dataclass(frozen=True)
class SpireOptions:
    """``mode`` embedding: seeds with their global context; noctx: bare seeds; full: local views, label filter first.

    ``tokens``: what all views cost together at most; ``pool``: ranked seeds that are looked at; ``misfit``: whether one
    that doesn't fit is passed over or ends the walk. Of mode full: ``local_tokens`` of a local view, and ``views``: how
    many of them the filter is asked about (the source doesn't say; candidates in an earlier view need no other).
    """

    mode: Mode = "embedding"
    tokens: int = 1000
    pool: int = 200
    misfit: Misfit = "skip"
    local_tokens: int = LOCAL_TOKENS
    views: int = 20

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "tokens", "pool", "local_tokens", "views")


@dataclass(frozen=True)
class Answered:
    """``views``: one a document, in the order in which their documents came in; ``flags``: what was counted."""

    views: tuple[tuple[str, View], ...]
    flags: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """What all views cost."""
        return sum(view.tokens for _, view in self.views)


class Spire:
    """Views of ``documents`` (by page id). ``labeller`` is wanted by mode full alone; ``out`` is its folder."""

    def __init__(
        self,
        documents: Callable[[str], Document],
        options: SpireOptions,
        labeller: Labeller | None = None,
        out: Path = Path(),
    ) -> None:
        if options.mode == "full" and labeller is None:
            raise ValueError("mode full: wanted a labeller, found none")
        self.options, self._documents, self._labeller, self._out = options, documents, labeller, out

    def answer(self, question: str, ranked: Sequence[Candidate], count: CountTokens) -> Answered:
        """The views of the best candidates. ``count``: what a text costs the reader."""
        options = self.options
        candidates: Sequence[Candidate] = list(ranked[: options.pool])
        flags: list[str] = []
        if options.mode == "full" and self._labeller is not None:
            candidates = self._filtered(self._labeller, question, candidates, count, flags)
        bare = options.mode == "noctx"
        views = admit(candidates, self._documents, options.tokens, count, bare=bare, misfit=options.misfit)
        return Answered(tuple(views.items()), tuple(flags))

    def _filtered(
        self,
        labeller: Labeller,
        question: str,
        candidates: Sequence[Candidate],
        count: CountTokens,
        flags: list[str],
    ) -> list[Candidate]:
        """The sentences that the labeller names, view by view; of a view whose answer failed its seed."""
        places = self._local_views(candidates, count)
        asked = [Asked(question, view.view.document, tuple(sorted(view.view.seeds))) for _, view in places]
        found: list[Candidate] = []
        for (page_id, view), chosen in zip(places, labeller.choose(asked, self._out), strict=True):
            seeds = (view.seed,) if chosen.failed else chosen.seeds
            flags += [LABELS_FAILED] * bool(chosen.failed) + [UNKNOWN_LABELS] * chosen.unknown
            flags += [SEED_OVER_BUDGET] * view.over_budget
            found += [Candidate(page_id, seed) for seed in seeds]
        return found

    def _local_views(self, candidates: Sequence[Candidate], count: CountTokens) -> list[tuple[str, LocalView]]:
        views: list[tuple[str, LocalView]] = []
        seen: set[Candidate] = set()
        for candidate in candidates:
            if candidate in seen:
                continue
            if len(views) == self.options.views:
                break
            document = self._documents(candidate.page_id)
            view = local_view(document, candidate.seed, self.options.local_tokens, count)
            seen.update(Candidate(candidate.page_id, seed) for seed in view.view.seeds)
            views.append((candidate.page_id, view))
        return views


def candidates_of(hits: Sequence[tuple[str, float]], places: Mapping[str, tuple[str, int]]) -> list[Candidate]:
    """The seeds of hits, in their order."""
    return [Candidate(*places[name]) for name, _ in hits]
