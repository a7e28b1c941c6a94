"""An OpenAI-compatible server that answers by rule and fails by script: a process of its own, over real HTTP.

    python scripted_server.py --log calls.jsonl [--rules RULES.py] [--fault-rate 0.2] ...

It prints its base URL. ``RULES.py`` defines ``RULES``, a list of (marker, rule): the first whose marker stands in the
request's texts makes the reply, ``rule(prompt) -> str``; without one the reply is ``ECHO`` and a digest of the texts.
Which fault comes is a function of (seed, messages, how often these messages came before). The log has one line when a
call starts and one when its answer has been written; it is flushed line by line.
"""

import argparse
import asyncio
import contextlib
import email
import email.utils
import gzip
import hashlib
import json
import os
import re
import runpy
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

HUGE = ("endless", "compressed")  # bodies that no client should read to their end; only by --faults
SOFT = ("refusal", "wrong_label", "length")  # well-formed completions that can't be used
FAULTS = (
    *("retry_after_s", "retry_after_date", "rate_limited", "http_500", "stall", "drop", "half_json", "empty_choices"),
    *("slow", *SOFT),
)
WRONG = "Perhaps.\n\nOr perhaps not."
NO_IMAGES = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
MAX_BODY_BYTES = 200_000_000
ENDLESS_BYTES = 40_000_000  # where even an endless body ends, for the sake of a client without limit


@dataclass(frozen=True)
class Prompt:
    """What a rule sees: the system text, the user's texts, and the SHA-256 of each picture's bytes."""

    system: str
    text: str
    images: tuple[str, ...]
    schema: dict[str, Any] | None


def prompt_of(body: dict[str, Any]) -> Prompt:
    system: list[str] = []
    texts: list[str] = []
    images: list[str] = []
    for message in body["messages"]:
        parts = message["content"]
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
        for part in parts:
            if part["type"] == "image_url":
                images.append(hashlib.sha256(part["image_url"]["url"].encode()).hexdigest())
            else:
                (system if message["role"] == "system" else texts).append(part["text"])
    schema = (body.get("response_format") or {}).get("json_schema")
    return Prompt("\n".join(system), "\n".join(texts), tuple(images), schema)


def echo(prompt: Prompt) -> str:
    return "ECHO " + digest([prompt.system, prompt.text, prompt.images])[:12]


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class Script:
    """Replies and faults; ``seen`` and ``softened`` count by messages."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rules: list[tuple[str, Callable[[Prompt], str]]]
        self.rules = runpy.run_path(options.rules)["RULES"] if options.rules else []
        self.faults = [name for name in options.faults.split(",") if name]
        self.seen: Counter[str] = Counter()
        self.softened: Counter[str] = Counter()
        self.calls = 0
        self.log = os.open(options.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, event: str, number: int, **more: Any) -> None:
        os.write(self.log, json.dumps({"event": event, "call": number, **more}).encode() + b"\n")

    def fault(self, content: str) -> str | None:
        """Which fault the next call of these messages meets; at most 1 of theirs is soft."""
        attempt = self.seen[content]
        self.seen[content] += 1
        drawn = int(digest([self.options.seed, content, attempt])[:12], 16)
        if attempt >= self.options.most_faults or drawn % 10_000 >= self.options.fault_rate * 10_000:
            return None
        name: str = self.faults[drawn // 10_000 % len(self.faults)]
        if name in SOFT:
            self.softened[content] += 1
            return name if self.softened[content] == 1 else None
        return name

    def text(self, prompt: Prompt) -> str:
        found = prompt.system + "\n" + prompt.text
        return next((rule for marker, rule in self.rules if marker in found), echo)(prompt)

    def completion(self, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        prompt = prompt_of(body)
        text, finish = self.text(prompt), "stop"
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if fault == "refusal":
            message = {"role": "assistant", "content": None, "refusal": "I can't help with that."}
        elif fault == "wrong_label":
            message["content"] = WRONG
        elif fault == "length":
            message["content"], finish = text[: len(text) // 2], "length"
        tokens = len(prompt.system + prompt.text) // 4 + 100 * len(prompt.images)
        usage: dict[str, Any] = {"prompt_tokens": tokens, "completion_tokens": max(len(text) // 4, 1)}
        if prompt.images:
            usage["prompt_tokens_details"] = {"image_tokens": 100 * len(prompt.images), "cached_tokens": 0}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        choices = [] if fault == "empty_choices" else [choice]
        head = {"id": "c", "object": "chat.completion", "created": 0, "model": body["model"]}
        return head | {"choices": choices, "usage": usage}

    def refused(self, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, str] | None:
        """(status, message) for a request that no server of this make answers."""
        options, sent = self.options, headers.get("authorization", "")
        if options.key and sent != f"Bearer {options.key}":
            return 401, f"Incorrect API key provided: {sent}"
        if options.model and body.get("model") != options.model:
            return 404, f"The model `{body.get('model')}` does not exist."
        if options.no_images and prompt_of(body).images:
            return options.no_images, NO_IMAGES
        if options.no_schema and "response_format" in body:
            return 400, "response_format of type json_schema is not supported"
        return (options.refuse, f"refused, as told; you sent {sent}") if options.refuse else None


class Server:
    """HTTP/1.1 with kept connections; chat completions, files and batches."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").rstrip().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                size = int(headers.get("content-length", "0"))
                assert size <= MAX_BODY_BYTES
                body = await reader.readexactly(size) if size else b""
                method, path, _ = first.split()
                if not await self.answer(method, path, headers, body, writer):
                    break
        writer.close()

    async def answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; whether the connection stays open."""
        path = path.partition("?")[0].removeprefix("/v1")
        if (method, path) == ("POST", "/chat/completions"):
            return await self.chat(headers, json.loads(body), writer)
        found = self.side(method, path, headers, body)
        content = found if isinstance(found, bytes) else json.dumps(found).encode()
        await send(writer, 200 if found is not None else 404, content)
        return True

    async def chat(self, headers: dict[str, str], body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        script, options = self.script, self.script.options
        refused = script.refused(body, headers)
        fault = None if refused else script.fault(digest(body["messages"]))
        script.calls += 1
        number = script.calls
        script.note("start", number, digest=digest(body), fault=fault)
        await asyncio.sleep(options.latency_s + (options.slow_s if fault == "slow" else 0))
        if refused:
            await send(writer, refused[0], json.dumps({"error": {"message": refused[1], "code": "x"}}).encode())
        elif fault in ("stall", "drop"):
            await asyncio.sleep(options.stall_s if fault == "stall" else 0)
            if number % 2:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{")
            return False
        elif fault in HUGE:
            await self.huge(fault, number, writer)
            return False
        elif fault in ("retry_after_s", "retry_after_date", "rate_limited", "http_500"):
            wait = {"retry_after_s": "1", "retry_after_date": email.utils.formatdate(time.time() + 1, usegmt=True)}
            more = {"Retry-After": wait[fault]} if fault in wait else {}
            await send(writer, 500 if fault == "http_500" else 429, b'{"error": {"message": "as scripted"}}', more)
        else:
            content = json.dumps(script.completion(body, fault)).encode()
            await send(writer, 200, content[: len(content) // 2] if fault == "half_json" else content)
        script.note("end", number, digest=digest(body), fault=fault)
        return True

    async def huge(self, fault: str, number: int, writer: asyncio.StreamWriter) -> None:
        """A body in chunks that goes on until the client hangs up, or 1 kB that unpacks to 1 MB."""
        sent, status = 0, self.script.options.huge_status
        try:
            if fault == "compressed":
                await send(writer, status, gzip.compress(b" " * 1_000_000), {"Content-Encoding": "gzip"})
                return
            head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            writer.write(head.encode())
            while sent < ENDLESS_BYTES:
                writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                await writer.drain()
                sent += 0x10000
        finally:
            self.script.note("huge", number, bytes=sent)

    def side(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        """Files and batches; None is 404."""
        if not self.script.options.batches:
            return None
        if (method, path) == ("POST", "/files"):
            name = f"file-{len(self.files)}"
            self.files[name] = multipart(headers["content-type"], body)
            head = {"id": name, "object": "file", "bytes": len(body), "created_at": 0}
            return head | {"filename": "x", "purpose": "batch", "status": "processed"}
        if content := re.fullmatch(r"/files/([\w-]+)/content", path):
            return self.files.get(content[1])
        if (method, path) == ("POST", "/batches"):
            return self.make_batch(json.loads(body))
        if (method, path) == ("GET", "/batches"):
            return {"object": "list", "data": [self.state(name) for name in self.batches], "has_more": False}
        if (one := re.fullmatch(r"/batches/([\w-]+)/cancel", path)) and method == "POST":
            return self.cancel(one[1])
        if one := re.fullmatch(r"/batches/([\w-]+)", path):
            return self.state(one[1]) if one[1] in self.batches else None
        return None

    def make_batch(self, wanted: dict[str, Any]) -> dict[str, Any]:
        name = f"batch-{len(self.batches)}"
        lines = self.files[wanted["input_file_id"]].splitlines()
        found = [self.batch_line(json.loads(line)) for line in lines]
        output = b"".join(json.dumps(line).encode() + b"\n" for line in found if line is not None)
        self.files[f"{name}-out"] = output
        ready = time.monotonic() + self.script.options.batch_s
        self.batches[name] = {"ready": ready, "metadata": wanted.get("metadata"), "size": len(lines)}
        return self.state(name)

    def cancel(self, name: str) -> dict[str, Any]:
        """Ends a batch with the first half of its results."""
        lines = self.files[f"{name}-out"].splitlines(keepends=True)
        self.files[f"{name}-out"] = b"".join(lines[: len(lines) // 2])
        self.batches[name] |= {"ready": 0.0, "end": "cancelled"}
        return self.state(name)

    def batch_line(self, line: dict[str, Any]) -> dict[str, Any] | None:
        body, script = line["body"], self.script
        refused = script.refused(body, {})
        fault = None if refused else script.fault(digest(body["messages"]))
        script.calls += 1
        for event in ("start", "end"):
            script.note(event, script.calls, digest=digest(body), fault=fault)
        head = {"id": "r", "custom_id": line["custom_id"]}
        if refused:
            return head | {"response": {"status_code": refused[0], "body": {"error": {"message": refused[1]}}}}
        if fault in ("stall", "drop"):
            return None
        if fault == "half_json":
            return head | {"response": None, "error": {"code": "batch_expired", "message": "too late"}}
        if fault in ("retry_after_s", "retry_after_date", "rate_limited", "http_500"):
            status = 500 if fault == "http_500" else 429
            return head | {"response": {"status_code": status, "body": {"error": {"message": "as scripted"}}}}
        return head | {"response": {"status_code": 200, "body": script.completion(body, fault)}, "error": None}

    def state(self, name: str) -> dict[str, Any]:
        batch = self.batches[name]
        done = time.monotonic() >= batch["ready"]
        head = {"id": name, "object": "batch", "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        files = {"input_file_id": "file-0", "output_file_id": f"{name}-out" if done else None, "error_file_id": None}
        state = {
            "status": batch.get("end", "completed") if done else "in_progress",
            "created_at": 0,
            "metadata": batch["metadata"],
        }
        return head | files | state


def multipart(content_type: str, body: bytes) -> bytes:
    """The bytes of the part called ``file``."""
    message = email.message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    for part in message.get_payload():
        if part.get_param("name", header="content-disposition") == "file":  # type: ignore[union-attr]
            return part.get_payload(decode=True)  # type: ignore[union-attr,return-value]
    raise ValueError("no file in the form")


async def send(writer: asyncio.StreamWriter, status: int, content: bytes, more: dict[str, str] | None = None) -> None:
    headers = {"Content-Type": "application/json", "Content-Length": str(len(content))} | (more or {})
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + content)
    await writer.drain()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--rules")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault-rate", type=float, default=0.0)
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--most-faults", type=int, default=6, help="only so many first calls of messages can fail")
    parser.add_argument("--latency-s", type=float, default=0.0)
    parser.add_argument("--slow-s", type=float, default=0.3, help="a very slow first byte")
    parser.add_argument("--huge-status", type=int, default=200, help="the status above an endless or compressed body")
    parser.add_argument("--stall-s", type=float, default=5.0, help="longer than the client waits")
    parser.add_argument("--batches", type=int, default=1, help="0: this server has no Batch API")
    parser.add_argument("--batch-s", type=float, default=0.2)
    parser.add_argument("--key", default="")
    parser.add_argument("--model", default="")
    parser.add_argument("--no-images", type=int, default=0, help="the status that refuses pictures")
    parser.add_argument("--no-schema", action="store_true")
    parser.add_argument("--refuse", type=int, default=0, help="the status of every answer")
    return parser.parse_args()


async def main() -> None:
    options = arguments()
    server = Server(Script(options))
    listening = await asyncio.start_server(server.connection, "127.0.0.1", options.port, limit=2**20, backlog=1024)
    print(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1", flush=True)
    async with listening:
        await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
