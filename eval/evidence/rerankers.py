"""What scores units for a query: BM25 offline, a model (cross_encoder), or a server's rerank or score endpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tilewright.configs.errors import UserError
from tilewright.eval.evidence.prefilter import UnitIndex, bm25_scores
from tilewright.eval.evidence.units import BLOCK, Unit

Form = Literal["rerank", "score"]


class Reranker(Protocol):
    """Scores texts for a query: [texts], higher is better. Raises RerankError if it can't."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]: ...


class RerankError(UserError, RuntimeError):
    """The reranker gave no scores: that is no delivery, and never an empty one."""


class LexicalReranker:
    """BM25 over the given texts: a deterministic stand-in that needs no model."""

    name = "BM25"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """BM25 of each text, idf over ``texts``."""
        units = [Unit("", "", BLOCK, number, (), "", (), text) for number, text in enumerate(texts)]
        return bm25_scores(query, [UnitIndex.of(units)])[0]


@dataclass(frozen=True)
class Endpoint:
    """``base_url`` such as http://localhost:8000/v1. ``form`` rerank: Jina's and Cohere's POST /rerank; score: vLLM's
    POST /score. Both are served by vLLM. ``batch``: texts a call."""

    base_url: str
    model: str
    form: Form = "rerank"
    api_key: str = "none"
    timeout_s: float = 60.0
    max_retries: int = 3
    batch: int = 100

    def __post_init__(self) -> None:
        if self.batch < 1 or self.timeout_s <= 0 or self.max_retries < 0:
            raise ValueError("wanted batch >= 1, timeout_s > 0 and max_retries >= 0")


class EndpointReranker:
    """Scores by a server. Connection errors, 408, 409, 429 and 5xx are tried again, as the openai client does."""

    def __init__(self, endpoint: Endpoint) -> None:
        from openai import OpenAI

        self.endpoint, self.name = endpoint, endpoint.model
        self._client = OpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key,
            timeout=endpoint.timeout_s,
            max_retries=endpoint.max_retries,
        )

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score a text. Raises RerankError if the server fails or its reply isn't one score for each text."""
        scores: list[float] = []
        for start in range(0, len(texts), self.endpoint.batch):
            scores += self._scores(query, list(texts[start : start + self.endpoint.batch]))
        return scores

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _scores(self, query: str, texts: list[str]) -> list[float]:
        from openai import OpenAIError

        ranks = self.endpoint.form == "rerank"
        body: dict[str, Any] = {"model": self.endpoint.model}
        body |= {"query": query, "documents": texts} if ranks else {"text_1": query, "text_2": texts}
        try:
            reply = self._client.post("/rerank" if ranks else "/score", body=body, cast_to=object)
        except OpenAIError as error:
            raise RerankError(f"{self.endpoint.base_url}: {self.endpoint.form} failed: {error}") from error
        return _read(reply, "results" if ranks else "data", "relevance_score" if ranks else "score", len(texts))


def _read(reply: object, key: str, value: str, count: int) -> list[float]:
    found: dict[int, float] = {}
    entries = reply.get(key) if isinstance(reply, Mapping) else None
    for entry in entries if isinstance(entries, list) else ():
        index, score = (entry.get("index"), entry.get(value)) if isinstance(entry, Mapping) else (None, None)
        if isinstance(index, int) and isinstance(score, (int, float)) and not isinstance(score, bool):
            found[index] = float(score)
    if sorted(found) != list(range(count)) or any(score != score for score in found.values()):
        raise RerankError(
            f"wanted one {value} for each of {count} texts under {key!r}, found {len(found)}: {reply!r:.300}"
        )
    return [found[index] for index in range(count)]
