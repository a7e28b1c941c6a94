"""Runs systems over groups of questions, and turns the sentences that they cite into citations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of
from tilewright.eval.evidence.spire.citations import NO_TILES, Citation, PageTiles, cite
from tilewright.eval.evidence.spire.document import Document
from tilewright.eval.evidence.spire.engines import encoder_of, simple_engine
from tilewright.eval.evidence.spire.groups import Group
from tilewright.eval.evidence.spire.labellers import Labeller
from tilewright.eval.evidence.spire.measures import Cited, Outcome
from tilewright.eval.evidence.spire.seed_index import DenseEngine, Engine, MakeEngine
from tilewright.eval.evidence.spire.segmenters import Segmenter
from tilewright.eval.evidence.spire.systems import Answer, SearchOptions, SystemOptions, run_system
from tilewright.eval.evidence.spire.views import CountTokens
from tilewright.eval.parts import Question


@dataclass(frozen=True)
class Citing:
    """What a question got, and its citations, one a sentence (of blocks: all sentences in them)."""

    outcome: Outcome
    citations: tuple[Citation, ...]

    def judged(self, verdicts: tuple[bool | None, ...]) -> "Citing":
        """The same with a model's verdict on each of the outcome's citations."""
        return Citing(replace(self.outcome, judged=verdicts), self.citations)

    @classmethod
    def from_plain(cls, value: Mapping[str, Any]) -> "Citing":
        """Of JSON values, as a journal has them."""
        outcome = dict(value["outcome"])
        outcome["cited"] = tuple(Cited(**one) for one in outcome["cited"])
        outcome["flags"], outcome["judged"] = tuple(outcome["flags"]), tuple(outcome["judged"])
        citations = tuple(
            Citation(
                **{
                    **one,
                    "paths": tuple(map(tuple, one["paths"])),
                    "boxes": tuple(map(tuple, one["boxes"])),
                }
            )
            for one in value["citations"]
        )
        return cls(Outcome(**outcome), citations)


class Citer:
    """Cites over ``groups``. ``store``: tiles of their pages, for boxes; ``out``: the stage's folder."""

    def __init__(
        self, groups: Sequence[Group], segmenter: Segmenter, count: CountTokens, store: TileStore | None, out: Path
    ) -> None:
        self._groups, self._segmenter, self._count, self._out = groups, segmenter, count, out
        self.tiles = store
        self._kept: dict[int, dict[str, Document]] = {}  # of one group: that of a corpus serves all systems
        self._tiles_of: dict[str, list[str]] = {}
        self._read: dict[str, PageTiles] = {}
        for tile_id in store.tile_ids if store is not None else ():
            self._tiles_of.setdefault(page_of(tile_id), []).append(tile_id)

    def run(
        self, name: str, options: SystemOptions, todo: Sequence[Question], labeller: Labeller | None = None
    ) -> Iterator[tuple[Question, Citing]]:
        """Each question's citations by ``options``; ``name`` is the system's. ``labeller``: in place of its own."""
        labeller = labeller or options.labeller()
        wanted = {question.query_id for question in todo}
        make = _maker(options.search)
        folder = labels_folder(self._out, name)
        folder.mkdir(parents=True, exist_ok=True)
        for number, group in enumerate(self._groups):
            questions = [question for question in group.questions if question.query_id in wanted]
            if not questions:
                continue
            documents = self._documents(number, group)
            segmenter = self._segmenter.name
            for answer in run_system(options, documents, segmenter, questions, self._count, make, folder, labeller):
                yield answer.question, self._citing(answer, documents, group)

    def _documents(self, number: int, group: Group) -> dict[str, Document]:
        if number not in self._kept:
            self._kept.clear()
            self._kept[number] = group.documents(self._segmenter)
        return self._kept[number]

    def _citing(self, answer: Answer, documents: Mapping[str, Document], group: Group) -> Citing:
        tiles = {page_id: self._page_tiles(page_id) for page_id in {page_id for page_id, _ in answer.seeds}}
        citations = tuple(
            cite(documents[page_id], seed, page_id, group.urls[page_id], tiles[page_id])
            for page_id, seed in answer.seeds
        )
        return Citing(answer.outcome, citations)

    def _page_tiles(self, page_id: str) -> PageTiles:
        if self.tiles is None:
            return NO_TILES
        if page_id not in self._read:
            self._read[page_id] = PageTiles(self.tiles.light(tile_id) for tile_id in self._tiles_of.get(page_id, ()))
        return self._read[page_id]


def labels_folder(out: Path, name: str) -> Path:
    """Where the label filter of the system ``name`` keeps replies and its ledger."""
    return out / ".labels" / name


def _maker(search: SearchOptions) -> MakeEngine:
    """What makes a system's engine; a model is loaded once."""
    if isinstance(search, str):
        return simple_engine(search)
    encoder = encoder_of(search)

    def make(texts: Mapping[str, str]) -> Engine:
        return DenseEngine(texts, encoder)

    return make
