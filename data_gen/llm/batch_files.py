"""The files of the Batch API: requests as JSON lines, results line by line back to replies and failures."""

import json
from collections.abc import Iterable
from typing import Any

from tilewright.data_gen.llm.calls import Call
from tilewright.data_gen.llm.completion import reply_of
from tilewright.data_gen.llm.failures import Failure, scrub, status_failure
from tilewright.data_gen.llm.request import Reply

ENDPOINT = "/v1/chat/completions"


def request_line(call: Call, with_schema: bool) -> bytes:
    """The line that asks for ``call``; its digest is the line's ``custom_id``."""
    line = {"custom_id": call.digest, "method": "POST", "url": ENDPOINT, "body": call.body(with_schema)}
    return json.dumps(line, ensure_ascii=True).encode() + b"\n"


def read_results(files: Iterable[bytes], wanted: frozenset[str], key: str | None) -> dict[str, Reply | Failure]:
    """{digest: what came} of a batch's output and error files; lines of no wanted digest and torn ones are left out."""
    found: dict[str, Reply | Failure] = {}
    for content in files:
        for line in content.splitlines():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue  # its request counts as missing, and is asked again
            digest = entry.get("custom_id") if isinstance(entry, dict) else None
            if isinstance(digest, str) and digest in wanted and not isinstance(found.get(digest), Reply):
                found[digest] = _outcome(entry, key)
    return found


def _outcome(entry: dict[str, Any], key: str | None) -> Reply | Failure:
    response = entry.get("response")
    if isinstance(response, dict) and response.get("status_code") == 200:
        return reply_of(response.get("body"), key)
    if isinstance(response, dict) and isinstance(response.get("status_code"), int):
        return status_failure(response["status_code"], json.dumps(response.get("body")), {}, key)
    error = entry.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    kind = "batch_expired" if code == "batch_expired" else "batch_error"
    return Failure(kind, scrub(json.dumps(error, ensure_ascii=False), key))
