"""A chat server with tool calls, and a search service: a process of its own over real HTTP. The model's name says how
it behaves. python agent_server.py LOG [LATENCY_S]; prints its address; the log has one line when a call starts and one
when its answer has been written."""

import base64
import hashlib
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOG = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
LATENCY_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8ffff3f0005fe02fe0def46b8"
    "0000000049454e44ae426082"
)
Body = dict[str, Any]


def note(event: str, **values: Any) -> None:
    os.write(LOG, json.dumps({"event": event, **values}).encode() + b"\n")


def texts(message: Body) -> str:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return "\n".join(part.get("text", "") for part in parts)


def call(query: Any, name: str = "search") -> Body:
    arguments = query if isinstance(query, str) and query.startswith(("{", "[", "!")) else json.dumps({"query": query})
    return {"id": "same", "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*wanted: Body) -> Body:
    return {"role": "assistant", "content": None, "tool_calls": list(wanted)}


def say(text: str | None) -> Body:
    return {"role": "assistant", "content": text}


def question_of(body: Body) -> str:
    found = re.search(r"Question: (.*)", "\n".join(map(texts, body["messages"])))
    assert found is not None
    return found[1]


def search(body: Body, query: str) -> Body:
    """A search, as the protocol in use wants it."""
    return calls(call(query)) if "tools" in body else say(f"I must look.\n<search>{query}</search>")


def answer(body: Body, text: str) -> Body:
    return say(text) if "tools" in body else say(f"Now I know.\n<answer>{text}</answer>")


def after(body: Body) -> int:
    """How many turns of the assistant there were."""
    return sum(message["role"] == "assistant" for message in body["messages"])


def honest(body: Body) -> Body:
    """One search, then the first year that stands in the results."""
    said = "\n".join(texts(message) for message in body["messages"][2:])
    year = re.search(r"\b1[0-9]{3}\b", said)
    if not after(body):
        return search(body, question_of(body))
    return answer(body, year[0] if year else "cannot answer")


def looping(body: Body) -> Body:
    """Searches for ever; where it must answer, it does."""
    if last(body):
        return answer(body, "1700")
    return search(body, f"{question_of(body)} {after(body)}")


def stubborn(body: Body) -> Body:
    """Searches for ever, also where it must answer."""
    return search(body, f"anything {after(body)}")


def repeating(body: Body) -> Body:
    """The same search again and again."""
    return looping(body) if last(body) else search(body, question_of(body))


def last(body: Body) -> bool:
    return "If you don't know it" in texts(body["messages"][-1])


def bad_then_honest(*bad: Body) -> Callable[[Body], Body]:
    """Begins with ``bad`` replies."""

    def behave(body: Body) -> Body:
        turn = after(body)
        if turn < len(bad):
            return bad[turn]
        return search(body, question_of(body)) if turn == len(bad) else honest(body)

    return behave


def always(message: Body) -> Callable[[Body], Body]:
    return lambda body: message


def parallel(body: Body) -> Body:
    if not after(body):
        return calls(*(call(f"{question_of(body)} {n}") for n in range(20)))
    return honest(body)


def mixed(body: Body) -> Body:
    """Good and bad calls in one reply."""
    if not after(body):
        return calls(call("!{"), call(question_of(body)), call("x", "rm -rf / \u0000"), call({"query": 1}))
    return honest(body)


def gullible(body: Body) -> Body:
    """Believes whatever label or turn it finds anywhere in its prompt."""
    prompt = "\n".join(texts(message) for message in body["messages"][1:])
    for pattern in (r"<answer>(.*?)</answer>", r"<\|im_start\|>assistant\s*(.*)", r'<results search="9">\s*(.*)'):
        if found := re.search(pattern, prompt):
            return answer(body, f"forged {found[1]}")
    return honest(body)


BEHAVIOURS: dict[str, Callable[[Body], Body]] = {
    "honest": honest,
    "looping": looping,
    "stubborn": stubborn,
    "repeating": repeating,
    "parallel": parallel,
    "mixed": mixed,
    "gullible": gullible,
    "closed_book": lambda body: answer(body, "1700"),
    "silent": always(say("")),
    "null": always(say(None)),
    "chatty": always(say("It may be so.\n\nOr not.")),
    "long": always(say("x" * 300_000)),
    "unknown_tool": bad_then_honest(calls(call("x", "browse"))),
    "bad_arguments": bad_then_honest(calls(call("!{")), calls(call('{"q": "x"}')), calls(call("[1]"))),
    "as_text": bad_then_honest(say('<tool_call>{"name": "search"}</tool_call>')),
    "empty": bad_then_honest(say(""), say(None), say("  ")),
    "two_labels": bad_then_honest(say("<search>a</search> <search>b</search>"), say("<search>a</search> so")),
    "lone_line": lambda body: say("1700") if last(body) else looping(body),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.search_for(self.path)

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.startswith("/v1/"):
            self.search_for(self.path, json.loads(data))
            return
        body = json.loads(data)
        name = hashlib.sha256(data).hexdigest()
        note("start", digest=name, body=body)
        time.sleep(LATENCY_S)
        message = BEHAVIOURS[body["model"]](body)
        prompt, pictures = len(data) // 4, data.count(b"data:image/")
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": len(json.dumps(message)) // 4}
        usage["prompt_tokens_details"] = {"image_tokens": 100 * pictures} if pictures else None
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        self.send(200, {"choices": [{"message": message, "finish_reason": finish}], "usage": usage})
        note("end", digest=name)

    def search_for(self, path: str, body: Body | None = None) -> None:
        kind = path.partition("?")[0].strip("/")
        note("search", kind=kind, body=body, path=path, key=self.headers.get("Authorization"))
        self.close_connection = True
        if kind == "moved":
            self.send(302, {}, {"Location": "/found"})
        elif kind in ("down", "refused"):
            self.send(500 if kind == "down" else 403, {})
        elif kind == "flaky":
            SEEN[path] += 1
            self.send(*((503, {}) if SEEN[path] == 1 else (200, {"results": FOUND})))
        else:
            self.send(200, SERVICES[kind])

    def send(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for key, text in (headers or {}).items():
            self.send_header(key, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


SEEN: Counter[str] = Counter()
FOUND = [
    {"text": "Oslo was founded in 1705.", "title": "Oslo", "url": "https://en.m.wikipedia.org/wiki/oslo#x"},
    {"image": base64.b64encode(PNG).decode(), "title": "A picture"},
    {"text": "no address"},
]
SERVICES: dict[str, Any] = {
    "found": {"results": FOUND},
    "nothing": {"results": []},
    "searxng": {"results": [{"content": "Oslo was founded in 1705.", "title": "Oslo", "url": "https://oslo.example/"}]},
    "broken": b'{"results": [',
    "other": {"error": "busy"},
    "nested": b"[" * 100_000,
    "not_objects": {"results": ["x"]},
    "numbers": {"results": [{"text": 7}]},
    "blank": {"results": [{"text": " ", "url": "x"}]},
    "bad_image": {"results": [{"image": "AAAA"}]},
    "huge": {"results": [{"text": "x" * 100_000}]},
}


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
