"""Every kind of retriever, delivery and reader by its options: the one place that a new kind is added to."""

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.eval import deliveries as delivering
from tilewright.eval.agent.options import Agent
from tilewright.eval.agent.reader import agent_reader
from tilewright.eval.deliveries import AsIs, Compressed, DomText, HtmlChunks, HtmlLookup, OcrText, RenderedText
from tilewright.eval.evidence.delivery import Tessera, tessera
from tilewright.eval.evidence.remedies import (
    HtmlLookupWithin,
    HtmlRag,
    Neighbours,
    OracleSlot,
    TitlePrefix,
    html_lookup_within,
    html_rag,
    neighbours,
    oracle_slot,
    title_prefix,
)
from tilewright.eval.evidence.spire.rows import SpireSeeds, SpireViews, spire_seeds, spire_views
from tilewright.eval.parts import Delivery, Reader, Retriever
from tilewright.eval.readers.chat import ChatReader, chat_reader
from tilewright.eval.readers.local import LocalReader, local_reader
from tilewright.eval.readers.nano import NanoReaderOptions, nano_reader
from tilewright.eval.readers.ocr import OcrReader, ocr_reader
from tilewright.eval.readers.string_evidence import StringEvidence, string_reader
from tilewright.eval.retrievers.simple import ClosedBook, Fused, GoldTiles, Hybrid, NoRetrieval, Oracle
from tilewright.eval.retrievers.texts import (
    DomChunks,
    TextChunks,
    TileDomTexts,
    dom_chunk_items,
    text_chunks,
    tile_text_items,
)
from tilewright.eval.retrievers.tiles import Bm25Tiles, CheckpointTiles, OcrTiles, bm25_tiles, ocr_tiles
from tilewright.eval.workshop import Workshop

RetrieverOptions = (
    Bm25Tiles | OcrTiles | TextChunks | DomChunks | TileDomTexts | SpireSeeds | Hybrid | NoRetrieval | Oracle
)
Evidence = Tessera | HtmlRag | Neighbours | TitlePrefix | HtmlLookupWithin | OracleSlot | SpireViews
DeliveryOptions = AsIs | Compressed | DomText | OcrText | RenderedText | HtmlLookup | HtmlChunks | Evidence
ReaderOptions = LocalReader | ChatReader | NanoReaderOptions | OcrReader | StringEvidence | Agent

BUILT_IN_RETRIEVERS: dict[str, RetrieverOptions] = {
    "bm25": Bm25Tiles("bm25"),
    "ocr": OcrTiles("ocr"),
    "none": NoRetrieval("none"),
    "gold": Oracle("oracle"),
}
BUILT_IN_DELIVERIES: dict[str, DeliveryOptions] = {"as_is": AsIs("as_is")}

_RETRIEVERS: dict[type, Callable[[Any, Workshop], Retriever]] = {
    Bm25Tiles: bm25_tiles,
    OcrTiles: ocr_tiles,
    TextChunks: text_chunks,
    DomChunks: dom_chunk_items,
    TileDomTexts: tile_text_items,
    SpireSeeds: spire_seeds,
    NoRetrieval: lambda options, workshop: ClosedBook(),
    Oracle: lambda options, workshop: GoldTiles(workshop),
}
_DELIVERIES: dict[type, Callable[[Any, Workshop], Delivery]] = {
    AsIs: delivering.as_is,
    Compressed: delivering.compressed,
    DomText: delivering.dom_text,
    OcrText: delivering.ocr_text,
    RenderedText: delivering.rendered_text,
    HtmlLookup: delivering.html_lookup,
    HtmlChunks: delivering.html_chunks,
    Tessera: tessera,
    HtmlRag: html_rag,
    Neighbours: neighbours,
    TitlePrefix: title_prefix,
    HtmlLookupWithin: html_lookup_within,
    OracleSlot: oracle_slot,
    SpireViews: spire_views,
}
_READERS: dict[type, Callable[[Any, Workshop], Reader]] = {
    LocalReader: local_reader,
    ChatReader: chat_reader,
    NanoReaderOptions: nano_reader,
    OcrReader: ocr_reader,
    StringEvidence: string_reader,
    Agent: agent_reader,
}


class Registry:
    """The parts of one run by name: its checkpoints and what its config declares, and the built-in ones. Each is made
    once, when it is first asked for."""

    def __init__(
        self,
        workshop: Workshop,
        retrievers: Mapping[str, RetrieverOptions],
        deliveries: Mapping[str, DeliveryOptions],
        readers: Mapping[str, ReaderOptions],
    ) -> None:
        self.workshop = workshop
        self._retrievers = BUILT_IN_RETRIEVERS | dict(retrievers)
        self._deliveries = BUILT_IN_DELIVERIES | dict(deliveries)
        self._readers = dict(readers)

    def retriever(self, name: str) -> Retriever:
        """Raises MissingToolError if its tool isn't installed, InputError if it lacks an input."""
        return self.workshop.once(f"retriever/{name}", lambda: self._retriever(name))

    def _retriever(self, name: str) -> Retriever:
        if name in self.workshop.checkpoints:
            return CheckpointTiles(name, self.workshop.checkpoints[name], self.workshop)
        options = self._retrievers[name]
        if isinstance(options, Hybrid):
            return Fused(options, {part: self.retriever(part) for part in options.of})
        return _RETRIEVERS[type(options)](options, self.workshop)

    def delivery(self, name: str) -> Delivery:
        """Raises as ``retriever``."""
        options = self._deliveries[name]
        return self.workshop.once(f"delivery/{name}", lambda: _DELIVERIES[type(options)](options, self.workshop))

    def reader(self, name: str) -> Reader:
        """Raises as ``retriever``."""
        options = self._readers[name]
        return self.workshop.once(f"reader part/{name}", lambda: _READERS[type(options)](options, self.workshop))


def check_hybrids(retrievers: Mapping[str, RetrieverOptions], known: Mapping[str, Any]) -> None:
    """Raise InputError for a hybrid of an unknown retriever, or of one that leads back to itself."""
    for name in retrievers:
        seen, waiting = set[str](), [name]
        while waiting:
            current = waiting.pop()
            if current in seen:
                raise InputError(
                    f"retrievers.{name}: wanted retrievers that are each fused once, found {current!r} again"
                )
            seen.add(current)
            found = retrievers.get(current)
            for part in found.of if isinstance(found, Hybrid) else ():
                if part not in known:
                    raise InputError(f"retrievers.{current}.of: wanted some of {sorted(known)}, found {part!r}")
                waiting.append(part)
