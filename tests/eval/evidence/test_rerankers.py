"""Rerankers: BM25, and a real HTTP server's rerank and score endpoints, whose odd replies are errors."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tilewright.eval.evidence.rerankers import Endpoint, EndpointReranker, Form, LexicalReranker, RerankError

TEXTS = ["one", "four words are here", "two words"]


def test_lexical_scores_rank_by_shared_words() -> None:
    scores = LexicalReranker().score("two words", TEXTS)
    assert scores[2] > scores[1] > scores[0] == 0
    assert LexicalReranker().score("x", []) == []


class Server(ThreadingHTTPServer):
    """Scores a text by its number of words. ``replies``: statuses and bodies that come first; ``asked``: requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.replies: list[tuple[int, Any]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, body))
        status, reply = self.server.replies.pop(0) if self.server.replies else (200, self.scored(body))
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        self.wfile.write(data)

    def scored(self, body: dict[str, Any]) -> dict[str, Any]:
        ranks = "documents" in body
        lengths = [len(text.split()) for text in body["documents" if ranks else "text_2"]]
        order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
        name = "relevance_score" if ranks else "score"
        return {"results" if ranks else "data": [{"index": index, name: lengths[index]} for index in order]}

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def asking(server: Server, form: Form = "rerank", **settings: Any) -> EndpointReranker:
    return EndpointReranker(Endpoint(f"http://127.0.0.1:{server.server_port}/v1", "m", form, **settings))


@pytest.mark.parametrize("form", ["rerank", "score"])
def test_scores_come_back_in_the_order_of_the_texts(server: Server, form: Form) -> None:
    assert asking(server, form, batch=2).score("q", TEXTS) == [1.0, 4.0, 2.0]
    assert [path for path, _ in server.asked] == [f"/v1/{form}"] * 2
    assert server.asked[0][1]["model"] == "m"


def test_a_busy_server_is_asked_again(server: Server) -> None:
    server.replies = [(503, {}), (429, {})]
    assert asking(server).score("q", TEXTS) == [1.0, 4.0, 2.0] and len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "reply"),
    [
        (400, {"error": "no such model"}),
        (200, {"results": []}),
        (200, {"results": [{"index": index, "relevance_score": 1} for index in (0, 1, 1)]}),
        (200, {"results": [{"index": index, "relevance_score": "high"} for index in range(3)]}),
        (200, {"results": [{"index": index, "relevance_score": float("nan")} for index in range(3)]}),
        (200, {"data": []}),
        (200, []),
    ],
)
def test_what_is_not_one_score_a_text_is_an_error(server: Server, status: int, reply: Any) -> None:
    server.replies = [(status, reply)]
    with pytest.raises(RerankError):
        asking(server).score("q", TEXTS)


def test_no_server_is_an_error() -> None:
    with pytest.raises(RerankError, match="rerank failed"):
        EndpointReranker(Endpoint("http://127.0.0.1:9/v1", "m", max_retries=0)).score("q", TEXTS)
