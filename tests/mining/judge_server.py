"""An OpenAI-compatible server that reads planted tiles as the offline judge does, and fails or waits as told."""

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.mining.planted import Planted

from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.verdicts import Verdict

QUERY = re.compile(r"\[BEGIN query [0-9a-f]+\]\n(.*?)\n\[END", re.DOTALL)
REPLIES = {Verdict.WRONG: "quite another thing", Verdict.CANNOT_ANSWER: "CANNOT_ANSWER"}
WAIT_S = 60.0


class JudgeServer(ThreadingHTTPServer):
    """``fail_every``: each so manieth call is answered by 500. ``together``: answers wait until so many calls are open
    at a time; ``waited_in_vain`` says that they weren't within a minute.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, planted: Planted) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        store, judge = TileStore.open(planted.root / "tiles"), GroundedJudge()
        self.said: dict[tuple[str, str], str] = {}
        for pair in planted.pairs:
            for tile in store:
                verdict = judge.judge(pair.query, (pair.answer,), tile)
                url = f"data:image/png;base64,{base64.b64encode(tile.image).decode()}"
                digest = hashlib.sha256(url.encode()).hexdigest()
                self.said[pair.query, digest] = json.dumps({"answer": REPLIES.get(verdict, pair.answer)})
        self.fail_every: int | None = None
        self.together = 1
        self.calls, self.failed, self.waited_in_vain = 0, 0, False
        self.asked: list[str] = []
        self._open = 0
        self._changed = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def opened(self) -> bool:
        """Count a call and wait for company; whether it is to fail."""
        with self._changed:
            self.calls += 1
            self._open += 1
            fails = self.fail_every is not None and self.calls % self.fail_every == 0
            self.failed += fails
            if self._open >= self.together:
                self.together = 1
                self._changed.notify_all()
            if not self._changed.wait_for(lambda: self.together == 1, WAIT_S):
                self.waited_in_vain, self.together = True, 1
                self._changed.notify_all()
            return fails

    def closed(self) -> None:
        with self._changed:
            self._open -= 1

    def reply(self, body: dict[str, Any]) -> str:
        """What the model says: of a tile, what it reads; of two answers, that they differ."""
        parts = body["messages"][-1]["content"]
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
        text = "\n".join(part["text"] for part in parts if part["type"] == "text")
        pictures = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        found = QUERY.search(text)
        assert found is not None
        self.asked.append(found[1])
        return self.said[found[1], hashlib.sha256(pictures[0].encode()).hexdigest()] if pictures else "WRONG"


class _Handler(BaseHTTPRequestHandler):
    server: JudgeServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fails = self.server.opened()
        message = {"role": "assistant", "content": self.server.reply(body)}
        answer = {
            "id": "c",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10},
        }
        self.server.closed()
        content = json.dumps({"error": {"message": "as told"}} if fails else answer).encode()
        self.send_response(500 if fails else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing on the terminal."""


@contextlib.contextmanager
def serving(planted: Planted) -> Iterator[JudgeServer]:
    with JudgeServer(planted) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
