"""Tessera as a delivery of the evaluation: for any retriever of tiles (compressed too) or texts, and any reader."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from tilewright.configs.digests import canonical_json
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.eval.deliveries import AsIs, OcrText, as_is, ocr_text
from tilewright.eval.evidence.block_pictures import BlockPictures
from tilewright.eval.evidence.page_units import PageUnits
from tilewright.eval.evidence.rerankers import Endpoint, EndpointReranker, LexicalReranker, Reranker, RerankError
from tilewright.eval.evidence.tessera import EvidenceLayer, RankedItem, ReaderContext, TesseraOptions
from tilewright.eval.evidence.units import BUILDER
from tilewright.eval.parts import Cost, Delivered, Item, Question
from tilewright.eval.rendered_text import RenderedTexts
from tilewright.eval.tools import require_module
from tilewright.eval.workshop import Workshop

SOURCE = "tessera"
PAGES_OPEN = 256  # documents kept in memory


@dataclass(frozen=True)
class Lexical:
    """Units by BM25: no model."""

    kind: Literal["bm25"]


@dataclass(frozen=True)
class Model:
    """Units by a cross-encoder: ``checkpoint`` names a model of the config, texts are cut at ``max_tokens``."""

    kind: Literal["model"]
    checkpoint: str
    max_tokens: int = 1024
    batch: int = 16


@dataclass(frozen=True)
class Server:
    """Units by a server's rerank or score endpoint."""

    kind: Literal["endpoint"]
    endpoint: Endpoint


@dataclass(frozen=True)
class Tessera:
    """A block of units in place of the last of k items. ``compression``: of the host's pictures, so of the budget.

    ``pictures``: how the host's tiles are given, as pictures or, for a host of OCR, as what tesseract reads on them.

    ``form`` image: the block as a picture, drawn and compressed as tiles are, of as many of its units as then fit.
    """

    kind: Literal["tessera"]
    reranker: Lexical | Model | Server = Lexical("bm25")
    compression: float = 1.0
    form: Literal["text", "image"] = "text"
    pictures: Literal["as_is", "ocr"] = "as_is"
    options: TesseraOptions = field(default_factory=TesseraOptions)

    def __post_init__(self) -> None:
        if not 1 <= self.compression < float("inf"):
            raise ValueError(f"compression: wanted a number of at least 1, found {self.compression}")


class TesseraDelivery:
    """Delivers the host's items and a block, never at more tokens than the host (else BudgetError ends the run)."""

    def __init__(self, options: Tessera, workshop: Workshop) -> None:
        require_module("selectolax", "text")
        self._options, self._workshop = options, workshop
        self._host = ocr_text(OcrText("ocr"), workshop) if options.pictures == "ocr" else as_is(AsIs("as_is"), workshop)
        self.identity = f"tessera/{BUILDER}/{canonical_json(options)}/{self._host.identity}"
        self._documents = workshop.need_pages("tessera")
        units = options.options.units
        self._units = workshop.once(f"units {canonical_json(units)}", lambda: PageUnits(self, units))
        self.html = lru_cache(PAGES_OPEN)(self._html)

    def _html(self, page_id: str) -> tuple[str, str] | None:
        """(HTML, title) of a page; None if its document isn't there or is no HTML."""
        try:
            return self._documents.html(page_id), self._workshop.titles.get(page_id, "")
        except (ItemError, KeyError):
            return None

    def deliver(self, question: Question, ranked: Sequence[Item], k: int, cost: Cost) -> Delivered:
        """Flags: ``tessera_fallback: reason`` where the host's own items come. Raises ItemError as the host does.

        Of the ``anchors`` that the reader doesn't get only the pages count, unless they compete with units (joint).
        """
        wanted = max(k, self._options.options.anchors)
        given = wanted if self._options.options.place == "joint" else k
        items = {
            item.item_id: self._host.item(item.compressed(self._options.compression)) if number < given else item
            for number, item in enumerate(ranked[:wanted])
        }
        rows = [
            RankedItem(item.item_id, item.page_id, cost(item) if number < given else 0, item.text)
            for number, item in enumerate(items.values())
        ]
        layer = EvidenceLayer(self._units, self._reranker, lambda text: cost(_block(text)), self._options.options)
        try:
            context = layer.apply(question.query, rows, k)
        except RerankError as error:
            raise ItemError(f"reranker: {error}") from error
        kept = [items[item.item_id] for item in context.items]
        if context.fallback:
            return Delivered(tuple(kept), (f"tessera_fallback: {context.fallback}",))
        block = _item(context)
        if self._options.form == "text":
            return Delivered((*kept, block))
        drawn = self._pictures.of(context, block, cost, grouped=self._options.options.grouped)
        if drawn is None:
            return Delivered(tuple(items[item.item_id] for item in rows[:k]), ("tessera_fallback: no picture fits",))
        return Delivered((*kept, drawn))

    @property
    def _pictures(self) -> BlockPictures:
        texts = self._workshop.once("rendered texts", lambda: RenderedTexts(self._workshop.cache))
        return BlockPictures(texts, self._options.compression)

    @property
    def _reranker(self) -> Reranker:
        made: Reranker = self._workshop.once(f"reranker {canonical_json(self._options.reranker)}", self._make_reranker)
        return made

    def _make_reranker(self) -> Reranker:
        chosen = self._options.reranker
        if isinstance(chosen, Lexical):
            return LexicalReranker()
        if isinstance(chosen, Server):
            return EndpointReranker(chosen.endpoint)
        from tilewright.eval.evidence.cross_encoder import CrossEncoder

        model = self._workshop.checkpoints.get(chosen.checkpoint) or self._workshop.readers.get(chosen.checkpoint)
        if model is None:
            known = sorted({*self._workshop.checkpoints, *self._workshop.readers})
            raise InputError(f"reranker.checkpoint: wanted one of {known}, found {chosen.checkpoint!r}")
        place, dtype = self._workshop.place, self._workshop.dtype
        return CrossEncoder(model.folder, device=place, dtype=dtype, max_tokens=chosen.max_tokens, batch=chosen.batch)


def tessera(options: Tessera, workshop: Workshop) -> TesseraDelivery:
    """Raises InputError without the pages' documents, MissingToolError without selectolax (or tesseract, for OCR)."""
    return TesseraDelivery(options, workshop)


def _block(text: str, page_id: str = "", name: str = "block") -> Item:
    return Item(f"{SOURCE}:{name}", page_id, SOURCE, text)


def _item(context: ReaderContext) -> Item:
    """The block as an item, of the page that most of it is from."""
    pages = [unit.page_id for unit in context.block.units]
    return _block(
        context.block.text, max(pages, key=pages.count), "+".join(unit.unit_id for unit in context.block.units)
    )
