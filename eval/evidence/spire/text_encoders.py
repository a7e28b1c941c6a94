"""What turns seeds and questions into vectors: our encoder, a sentence-transformers folder, or an embeddings server."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.configs.bounds import check_bounds
from tilewright.configs.digests import canonical_json, digest_input, digest_text
from tilewright.configs.errors import InputError
from tilewright.configs.partial import StageError
from tilewright.configs.stage import execution
from tilewright.eval.tools import require_module
from tilewright.train.encoder import Encoder, evaluating

Vectors = NDArray[np.float32]  # [N, D], unit length


class TextEncoder(Protocol):
    """Equal ``identity``: equal vectors."""

    @property
    def identity(self) -> str: ...

    def documents(self, texts: Sequence[str]) -> Vectors:
        """[N, D] of texts that are searched."""
        ...

    def queries(self, texts: Sequence[str]) -> Vectors:
        """[N, D] of questions."""
        ...


@dataclass(frozen=True)
class SentenceTransformerOptions:
    """``folder``: a model that sentence-transformers loads, on disk; ``query_prompt`` stands before each question."""

    kind: Literal["sentence_transformers"]
    folder: Path
    query_prompt: str = ""
    batch_size: int = execution(default=32)

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "batch_size")


@dataclass(frozen=True)
class EndpointOptions:
    """An OpenAI-compatible ``/embeddings``. ``api_key_env``: NAME of the variable that holds the key."""

    kind: Literal["endpoint"]
    model: str
    base_url: str = execution()
    query_prompt: str = ""
    batch_size: int = execution(default=64)
    timeout_s: float = execution(default=120.0)
    max_retries: int = execution(default=4)
    api_key_env: str | None = execution(default=None)

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "batch_size")
        check_bounds(self, 0, None, "max_retries", "timeout_s")


class OwnEncoder:
    """Ours: seeds where tiles stand, questions as queries."""

    def __init__(self, encoder: Encoder, precision: str, batch_size: int = 8) -> None:
        self._encoder, self._batch_size = encoder, batch_size
        self.identity = f"{encoder.hash}/{precision}"

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Texts alike in length are encoded together, so that there is little padding."""
        vectors = np.zeros((len(texts), self._encoder.dimension), np.float32)
        order = sorted(range(len(texts)), key=lambda index: (len(texts[index]), index))
        with evaluating(self._encoder.model):
            for start in range(0, len(order), self._batch_size):
                rows = order[start : start + self._batch_size]
                batch = self._encoder.document_batch([texts[row] for row in rows])
                vectors[rows] = self._encoder.forward(batch).cpu().numpy()
        return vectors

    def queries(self, texts: Sequence[str]) -> Vectors:
        """As the encoder embeds queries."""
        found: Vectors = self._encoder.encode_queries(list(texts)).numpy()
        return found


class SentenceTransformerEncoder:
    """Any model of sentence-transformers from a local folder. Raises MissingToolError without the package."""

    def __init__(self, options: SentenceTransformerOptions, device: str = "cpu") -> None:
        package = require_module("sentence_transformers", "st")
        if not options.folder.is_dir():
            raise InputError(f"encoder: wanted a folder of sentence-transformers, found {options.folder}")
        self._options = options
        self._model: Any = package.SentenceTransformer(str(options.folder), device=device, local_files_only=True)
        self.identity = digest_text(canonical_json([options.kind, options.query_prompt, digest_input(options.folder)]))

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Without a prompt."""
        return self._encode(list(texts))

    def queries(self, texts: Sequence[str]) -> Vectors:
        """With the query prompt."""
        return self._encode([self._options.query_prompt + text for text in texts])

    def _encode(self, texts: list[str]) -> Vectors:
        vectors: Vectors = self._model.encode(
            texts, batch_size=self._options.batch_size, normalize_embeddings=True, show_progress_bar=False
        )
        return vectors.astype(np.float32)


class EndpointEncoder:
    """Asks a server, in batches; too long a wait or an error beyond the retries is a StageError, never a vector."""

    def __init__(self, options: EndpointOptions) -> None:
        from openai import OpenAI

        key = "none"
        if options.api_key_env is not None:
            key = os.environ.get(options.api_key_env, "")
            if not key:
                raise InputError(f"api_key_env: the environment variable {options.api_key_env} is not set")
        self._options = options
        self._client = OpenAI(
            base_url=options.base_url, api_key=key, timeout=options.timeout_s, max_retries=options.max_retries
        )
        self.identity = digest_text(canonical_json([options.kind, options.model, options.query_prompt]))

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Without a prompt."""
        return self._encode(list(texts))

    def queries(self, texts: Sequence[str]) -> Vectors:
        """With the query prompt."""
        return self._encode([self._options.query_prompt + text for text in texts])

    def _encode(self, texts: list[str]) -> Vectors:
        size = self._options.batch_size
        rows = [row for start in range(0, len(texts), size) for row in self._batch(texts[start : start + size])]
        try:
            vectors = np.asarray(rows, dtype=np.float32)
        except ValueError as error:
            raise StageError(f"embeddings of {self._options.model}: wanted vectors of one length ({error})") from error
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if len(rows) and not (np.isfinite(norms).all() and (norms > 0).all()):
            raise StageError(f"embeddings of {self._options.model}: wanted finite vectors, none of them zero")
        unit: Vectors = vectors / norms
        return unit

    def _batch(self, texts: list[str]) -> list[list[float]]:
        from openai import OpenAIError

        try:
            found = self._client.embeddings.create(model=self._options.model, input=texts, encoding_format="float")
        except OpenAIError as error:
            raise StageError(f"embeddings of {self._options.model}: {type(error).__name__}: {error}") from error
        rows = {entry.index: entry.embedding for entry in found.data}
        if sorted(rows) != list(range(len(texts))):
            raise StageError(f"embeddings: wanted one vector for each of {len(texts)} texts, found {sorted(rows)[:5]}")
        return [rows[index] for index in range(len(texts))]
