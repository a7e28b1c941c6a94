"""Which engine a config's ``search`` names: words, a small embedder, a checkpoint of the run, any text encoder."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.eval.evidence.spire.seed_index import Bm25Engine, DenseEngine, Engine, Hits, MakeEngine, texts_digest
from tilewright.eval.evidence.spire.text_encoders import (
    EndpointEncoder,
    EndpointOptions,
    OwnEncoder,
    SentenceTransformerEncoder,
    SentenceTransformerOptions,
    TextEncoder,
)
from tilewright.eval.tools import require_module
from tilewright.eval.workshop import Workshop

BM25, MINILM = "bm25", "minilm"
TextSearch = str | SentenceTransformerOptions | EndpointOptions


class MiniLmEngine:
    """By all-MiniLM-L6-v2, from the package that brings its weights; one vector a text."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        from tilewright.eval.minilm import MiniLm

        self._index = MiniLm(texts, words=None)

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """Best first."""
        return self._index.search(queries, k)


def require_search(search: TextSearch, workshop: Workshop | None) -> None:
    """Raise MissingToolError for a package that isn't there, InputError for a name that nothing has."""
    known = workshop.checkpoints if workshop is not None else {}
    if search == BM25:
        require_module("bm25s", "text")
    elif search == MINILM:
        from tilewright.eval.minilm import require_minilm

        require_minilm()
    elif isinstance(search, SentenceTransformerOptions):
        require_module("sentence_transformers", "st")
    elif isinstance(search, str) and search not in known:
        raise InputError(f"search: wanted {BM25}, {MINILM}, a checkpoint of this run or an encoder, found {search!r}")


def encoder_of(search: SentenceTransformerOptions | EndpointOptions) -> TextEncoder:
    """Load it, or make its client."""
    return EndpointEncoder(search) if isinstance(search, EndpointOptions) else SentenceTransformerEncoder(search)


def _encoder(search: TextSearch, workshop: Workshop) -> TextEncoder:
    if isinstance(search, str):
        return OwnEncoder(workshop.encoder(search), workshop.precision)
    return workshop.once(f"text encoder {search}", lambda: encoder_of(search))


def search_identity(search: TextSearch, workshop: Workshop) -> str:
    """Equal ones find alike."""
    return search if isinstance(search, str) and search in (BM25, MINILM) else _encoder(search, workshop).identity


def engine_maker(search: TextSearch, workshop: Workshop) -> MakeEngine:
    """What makes the engine; vectors are kept in the run's cache."""
    if isinstance(search, str) and search in (BM25, MINILM):
        return simple_engine(search)
    encoder = _encoder(search, workshop)

    def make(texts: Mapping[str, str]) -> Engine:
        folder: Path = workshop.cache.part("spire_vectors", encoder.identity, texts_digest(texts))
        return DenseEngine(texts, encoder, folder)

    return make


def simple_engine(search: str) -> MakeEngine:
    """bm25 or minilm."""
    return Bm25Engine if search == BM25 else MiniLmEngine
