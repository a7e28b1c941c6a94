"""A search service over HTTP as an agent's tool: whatever isn't a list of results is a failure, never "no results"."""

import asyncio
import base64
import binascii
import functools
import hashlib
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from tilewright.configs.digests import canonical_json
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.configs.requests import request_of
from tilewright.data_gen.images import decode_image
from tilewright.data_gen.llm.failures import backoff_s, retry_after_s, scrub
from tilewright.data_gen.urls import page_id
from tilewright.eval.agent.options import SearchEndpoint
from tilewright.eval.parts import RETRIEVAL_FAILED, Delivered, Item, Picture, Question

SOURCE = "endpoint"
_TRIED_AGAIN = (408, 425, 429)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> None:
        """None: a key goes to the configured address alone."""


@dataclass(frozen=True)
class EndpointTool:
    """``k`` results a search; several questions may search at a time."""

    options: SearchEndpoint
    k: int

    @property
    def identity(self) -> str:
        """The service by its address."""
        return f"{canonical_json(request_of('endpoint', 1, self.options)['config'])}/{self.k}"

    async def search(self, question: Question, query: str) -> Delivered:
        """Raises ItemError if the service fails or answers anything but results."""
        return await asyncio.to_thread(self.found, query)

    def found(self, query: str) -> Delivered:
        """The first ``k`` results in the service's order."""
        try:
            reply = json.loads(self._body(query))
        except (ValueError, RecursionError) as error:
            raise self._failure(f"wanted JSON, found other bytes ({type(error).__name__})") from error
        results = reply.get("results") if isinstance(reply, Mapping) else None
        if not isinstance(results, list):
            raise self._failure(f"wanted {{'results': [...]}}, found {reply!r:.200}")
        return Delivered(tuple(self._item(entry) for entry in results[: self.k]))

    def close(self) -> None:
        """It has no threads of its own."""

    def _failure(self, said: str) -> ItemError:
        return ItemError(f"{RETRIEVAL_FAILED}: {self.options.url}: {scrub(said, self.options.api_key())}")

    def _request(self, query: str) -> urllib.request.Request:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "tilewright"}
        if (key := self.options.api_key()) is not None:
            headers["Authorization"] = f"Bearer {key}"
        if self.options.form == "searxng":
            words = urllib.parse.urlencode({"q": query, "format": "json"}, errors="replace")
            return urllib.request.Request(f"{self.options.url}?{words}", headers=headers)
        body = json.dumps({"query": query, "k": self.k}).encode()
        return urllib.request.Request(
            self.options.url, body, headers | {"Content-Type": "application/json"}, method="POST"
        )

    def _body(self, query: str) -> bytes:
        opener, tries = urllib.request.build_opener(_NoRedirect), 0
        while True:
            tries += 1
            wait_s = None
            try:
                with opener.open(self._request(query), timeout=self.options.timeout_s) as reply:
                    body: bytes = reply.read(self.options.max_bytes + 1)
                if len(body) > self.options.max_bytes:
                    raise self._failure(f"the body is longer than max_bytes ({self.options.max_bytes})")
                return body
            except urllib.error.HTTPError as error:
                with error:
                    said, wait_s = f"HTTP {error.code}", retry_after_s(dict(error.headers.items()))
                if error.code < 500 and error.code not in _TRIED_AGAIN:
                    raise self._failure(said) from error
            except (OSError, HTTPException) as error:
                said = f"{type(error).__name__}: {error}"
            if tries > self.options.max_retries:
                raise self._failure(f"{said}, after {tries} tries")
            time.sleep(backoff_s(tries, wait_s))

    def _item(self, entry: Any) -> Item:
        names = {"text": "content"} if self.options.form == "searxng" else {"text": "text"}
        known = entry if isinstance(entry, Mapping) else {}
        values = {name: known.get(names.get(name, name)) or "" for name in ("text", "title", "url")}
        if not known or not all(isinstance(value, str) for value in values.values()):
            raise self._failure(f"wanted results with text, title and url, found {entry!r:.200}")
        picture = self._picture(known.get("image") if self.options.form == "json" else None)
        if picture is None and not values["text"].strip():
            raise self._failure(f"wanted a result with a text or an image, found {entry!r:.200}")
        named = canonical_json([*values.values(), picture.sha256 if picture else ""])
        name = hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        return Item(name, _page(values["url"], name), SOURCE, values["text"], picture, title=values["title"])

    def _picture(self, encoded: Any) -> Picture | None:
        if encoded is None:
            return None
        try:
            data = base64.b64decode(encoded, validate=True)
            size_px = decode_image(data).size
        except (TypeError, ValueError, binascii.Error, InputError) as error:
            raise self._failure(f"wanted an image as base64 of a PNG, JPEG or WebP ({error})") from error
        return Picture(hashlib.sha256(data).hexdigest(), size_px, functools.partial(decode_image, data))


def _page(url: str, otherwise: str) -> str:
    """The id of the page at ``url``, so that it compares with gold pages; ``otherwise`` where that is no address."""
    try:
        return page_id(url)
    except InputError:
        return otherwise
