"""SPIRE as parts of evaluation rows: a retriever whose items are sentences, and the delivery of views within a budget.

`{retriever: spire, delivery: spire, reader: ..., k: [1]}`: the delivery takes the budget that it has, not k items. With
`delivery: as_is` a row gives the k best sentences one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.llm import LlmSettings
from tilewright.eval.evidence.spire.document import Document, build_document
from tilewright.eval.evidence.spire.engines import TextSearch, engine_maker, require_search, search_identity
from tilewright.eval.evidence.spire.labellers import Labeller, LexicalLabeller, ModelLabeller
from tilewright.eval.evidence.spire.measures import COUNTS, helpful, per_question
from tilewright.eval.evidence.spire.seed_index import Engine, SeedIndex
from tilewright.eval.evidence.spire.segmenters import Segmenter, SegmenterName
from tilewright.eval.evidence.spire.spire import Spire, SpireOptions
from tilewright.eval.evidence.spire.systems import outcome_of
from tilewright.eval.evidence.spire.views import Candidate, View
from tilewright.eval.parts import Cost, Delivered, Found, Item, Question
from tilewright.eval.string_evidence import holds
from tilewright.eval.tools import require_module
from tilewright.eval.workshop import Workshop

SEED, VIEW = "spire_seed", "spire_view"


@dataclass(frozen=True)
class SpireSeeds:
    """Sentences of the pages, found by ``search`` (bm25, minilm, a checkpoint's name, or a text encoder).

    ``context``: searched and delivered with title, headings and table headers; false: bare. ``segmenter``: nupunkt, or
    rule, which needs no package.
    """

    kind: Literal["spire_seeds"]
    search: TextSearch = "bm25"
    context: bool = True
    segmenter: SegmenterName = "nupunkt"


@dataclass(frozen=True)
class SpireViews:
    """The views of a ``spire_seeds`` retriever's best sentences. ``labels``: the model of mode full's filter; None: by
    shared words, a stand-in."""

    kind: Literal["spire"]
    options: SpireOptions = field(default_factory=SpireOptions)
    labels: LlmSettings | None = None


class SpireRetriever:
    """``spire_seeds``. An item's text is the sentence as it is embedded; its position, its number on the page."""

    closed_book, sees_gold = False, False

    def __init__(self, options: SpireSeeds, workshop: Workshop) -> None:
        self._options, self._workshop = options, workshop
        self._pages = workshop.need_pages("spire_seeds")
        self._segmenter = Segmenter(options.segmenter)
        name = options.search if isinstance(options.search, str) else options.search.kind
        self.title = f"sentences of the pages{'' if options.context else ' without context'}, {name}"

    @property
    def _documents(self) -> tuple[Mapping[str, Document], Mapping[str, str]]:
        """({page_id: document}, {page_id: error}); each page is parsed once a run."""

        def build() -> tuple[dict[str, Document], dict[str, str]]:
            made: dict[str, Document] = {}
            errors: dict[str, str] = {}
            for page_id in self._pages.pages:
                try:
                    made[page_id] = build_document(self._pages.html(page_id), self._segmenter)
                except ItemError as error:
                    errors[page_id] = str(error)
            return made, errors

        return self._workshop.once(f"spire documents {self._segmenter.identity}", build)

    @property
    def index(self) -> SeedIndex:
        """The seeds; made once a run, and known to the delivery."""

        def make() -> SeedIndex:
            documents, _ = self._documents
            index = SeedIndex(documents, self._options.segmenter, bare=not self._options.context)
            sources = sources_of(self._workshop)
            for name, (page_id, seed) in index.places.items():
                sources[name] = (documents[page_id], page_id, seed)
            return index

        return self._workshop.once(f"spire seeds {self._segmenter.identity} {self._options.context}", make)

    @property
    def identity(self) -> str:
        """What is searched and how."""
        ids = [document.document_id for document in self._documents[0].values()]
        texts = digest_text(canonical_json([ids, self._options.context]))
        return f"spire_seeds/1/{texts}/{search_identity(self._options.search, self._workshop)}"

    @property
    def items_failed(self) -> int:
        """Pages that couldn't be read."""
        return len(self._documents[1])

    @property
    def page_of(self) -> Mapping[str, str]:
        """Of each seed."""
        return self._workshop.once(
            f"spire pages {self._segmenter.identity} {self._options.context}",
            lambda: {name: page_id for name, (page_id, _) in self.index.places.items()},
        )

    @property
    def facts(self) -> Mapping[str, object]:
        """How sentences were made and what finds them."""
        documents, errors = self._documents
        facts: dict[str, object] = {"segmenter": self._segmenter.identity, "context": self._options.context}
        facts |= {"items": len(self.index.places), "pages": len(documents)}
        return facts | ({"pages_failed": len(errors)} if errors else {})

    def item(self, item_id: str) -> Item:
        """A seed. Raises InputError for an unknown one."""
        if item_id not in self.index.places:
            raise InputError(f"a row returned {item_id!r}, which isn't among the {len(self.index.places)} seeds")
        page_id, seed = self.index.places[item_id]
        return Item(item_id, page_id, SEED, self.index.texts[item_id], None, seed, self._pages.pages[page_id].title)

    def search(self, questions: Sequence[Question], depth: int) -> Found:
        """Seeds for each question."""
        texts = self.index.texts

        def make() -> Engine:
            return engine_maker(self._options.search, self._workshop)(texts)

        engine = self._workshop.once(f"spire engine {self.identity}", make)
        found = engine.search([question.query for question in questions], depth)
        return Found({question.query_id: hits for question, hits in zip(questions, found, strict=True)})


def sources_of(workshop: Workshop) -> dict[str, tuple[Document, str, int]]:
    """{item_id: (document, page_id, seed)} of all seeds of this run's retrievers."""
    found: dict[str, tuple[Document, str, int]] = workshop.once("spire sources", dict)
    return found


class SpireDelivery:
    """``spire``: one item a cited page, its merged view; together they cost the reader at most the budget."""

    def __init__(self, options: SpireViews, workshop: Workshop) -> None:
        self._options, self._workshop = options, workshop
        self._labeller: Labeller | None = None
        if options.options.mode == "full":
            self._labeller = ModelLabeller(options.labels) if options.labels else LexicalLabeller()
        elif options.labels is not None:
            raise InputError(f"spire: labels: wanted with mode full alone, found mode {options.options.mode!r}")
        named = self._labeller.identity if self._labeller else ""
        self.identity = f"spire/1/{digest_text(canonical_json([options.options, named]))}"

    def deliver(self, question: Question, ranked: Sequence[Item], k: int, cost: Cost) -> Delivered:
        """Views of the first ``pool`` of ``ranked``, whatever ``k``. Raises ItemError for items that are no seeds."""
        sources = sources_of(self._workshop)
        documents: dict[str, Document] = {}
        candidates = []
        for item in ranked[: self._options.options.pool]:
            if item.source != SEED or item.item_id not in sources:
                raise ItemError(f"spire: wanted items of a spire_seeds retriever, found {item.item_id} ({item.source})")
            document, page_id, seed = sources[item.item_id]
            documents[page_id] = document
            candidates.append(Candidate(page_id, seed))
        titles = self._workshop.titles

        def count(text: str) -> int:
            return cost(Item("spire", "", VIEW, text))

        out: Path = self._workshop.cache.part("labels", self.identity)
        spire = Spire(documents.__getitem__, self._options.options, self._labeller, out)
        answered = spire.answer(question.query, candidates, count)
        outcome = outcome_of(question, answered.views, answered.flags, count)
        measures = {name: float(per_question([outcome], name)[0]) for name in COUNTS}
        for name, values in helpful(outcome, question.query, question.answers).items():
            measures[name] = float(sum(bool(value) for value in values))
        measures |= _given_recall(question, answered.views)
        items = tuple(
            Item(f"{page_id}-view", page_id, VIEW, view.text, None, number, titles.get(page_id, ""))
            for number, (page_id, view) in enumerate(answered.views)
        )
        return Delivered(items, answered.flags, measures)


def _given_recall(question: Question, views: Sequence[tuple[str, View]]) -> dict[str, float]:
    """Recall over what the reader is given, beside the retriever's own; NaN (out of the mean) without a gold page."""
    pages = {page_id for page_id, _ in views}
    return {
        "given_gold_page": float(bool(pages & question.gold_pages)) if question.gold_pages else float("nan"),
        "given_evidence_recall_string": float(any(holds(view.text, question.answers) for _, view in views)),
    }


def spire_seeds(options: SpireSeeds, workshop: Workshop) -> SpireRetriever:
    """Raises MissingToolError without selectolax, the segmenter or the search's package, InputError without pages."""
    require_module("selectolax", "text")
    require_search(options.search, workshop)
    return SpireRetriever(options, workshop)


def spire_views(options: SpireViews, workshop: Workshop) -> SpireDelivery:
    """Nothing is asked yet. Raises InputError for a filter's model without mode full."""
    return SpireDelivery(options, workshop)
