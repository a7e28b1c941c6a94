"""Pages with what they show, from their servers into a mirror; each URL is asked for once, whatever asks for it."""

import asyncio
from asyncio import FIRST_COMPLETED
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from tilewright.configs.journal import Journal
from tilewright.data_gen.fetch.budget import PAGE_TIMEOUT, Budget
from tilewright.data_gen.fetch.client import Answer, Ask, Client
from tilewright.data_gen.fetch.failure import FetchError
from tilewright.data_gen.fetch.mirror import Mirror, MirrorRecord, Objects
from tilewright.data_gen.fetch.settings import Limits
from tilewright.data_gen.fetch.url_list import Target, by_turns
from tilewright.data_gen.records import from_json, to_json
from tilewright.data_gen.sources.html_text import decode_html
from tilewright.data_gen.sources.references import MAX_CSS_DEPTH, css_references, decode_css, html_references
from tilewright.data_gen.sources.source import media_type_of
from tilewright.data_gen.sources.xhtml import XHTML_TYPE, as_html
from tilewright.data_gen.urls import canonical_url

HTML_TYPES = ("text/html", XHTML_TYPE)
_PAGE, _RESOURCE = "page", "resource"
_ACCEPT_PAGE = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.1"


@dataclass
class _Page:
    """The work on one page: what its requests may take, and what of it couldn't be had {URL: (reason, detail)}."""

    budget: Budget
    missing: dict[str, tuple[str, str]] = field(default_factory=dict)


class Crawler:
    """Fetches pages and their resources; ``journal`` keeps every finished URL (a record, or a final failure).

    ``page_urls``: pages of the list, which are nobody's resources. ``previous``: an earlier mirror and its records by
    URL; what the server says hasn't changed is taken from there.
    """

    def __init__(
        self,
        client: Client,
        objects: Objects,
        journal: Journal,
        limits: Limits,
        *,
        page_urls: frozenset[str],
        previous: tuple[Mirror, Mapping[str, MirrorRecord]] | None = None,
    ) -> None:
        self._client, self._objects, self._journal, self._limits = client, objects, journal, limits
        self._page_urls, self._previous = page_urls, previous
        self._running: dict[str, asyncio.Task[MirrorRecord]] = {}

    async def page(self, target: Target) -> dict[str, Any]:
        """Fetch a page and what it shows; {URL: (reason, detail)} of what couldn't be had. FetchError for the page."""
        if target.problem:
            raise FetchError(target.problem, "wanted http://... or https://..., without a password", final=True)
        work = _Page(Budget(self._limits.page_timeout_s))
        record = await self._fetch(target.url, _PAGE, work)
        await self._resources(target, record.resources, work)
        return {"missing": {url: work.missing[url] for url in sorted(work.missing)}}

    async def _resources(self, target: Target, urls: Sequence[str], work: _Page) -> None:
        """What a page shows, and what its stylesheets ask for in turn."""
        seen: set[str] = set()
        left, further = self._limits.resources_per_page, set(urls)
        for _ in range(MAX_CSS_DEPTH + 1):
            wanted = sorted(url for url in further - seen if url not in self._page_urls)
            if len(wanted) > left:
                detail = f"it asks for more than {self._limits.resources_per_page}; the rest is left out"
                work.missing[target.url] = ("too_many_resources", detail)
            wanted = wanted[:left]
            left -= len(wanted)
            seen.update(wanted)
            records = await asyncio.gather(*(self._resource(url, work) for url in wanted))
            further = {url for record in records if record is not None for url in record.resources}

    async def _resource(self, url: str, work: _Page) -> MirrorRecord | None:
        try:
            return await self._fetch(url, _RESOURCE, work)
        except FetchError as error:
            work.missing[url] = (error.reason, error.detail)
            return None

    async def _fetch(self, url: str, kind: str, work: _Page) -> MirrorRecord:
        """The record of a URL: of the journal, of a request under way for another page, or of a new one."""
        if url in self._journal:
            value = self._journal[url]
            if "reason" in value:
                raise FetchError(value["reason"], value["detail"], final=True)
            return from_json(MirrorRecord, value, "journal")
        while True:
            if url not in self._running:
                self._running[url] = asyncio.create_task(self._ask(url, kind, work.budget))
            try:
                return await self._running[url]
            except FetchError as error:
                if error.reason != PAGE_TIMEOUT or work.budget.is_spent:
                    raise  # else it was another page that had no time left for it

    async def _ask(self, url: str, kind: str, budget: Budget) -> MirrorRecord:
        try:
            old = self._intact(url, kind)
            answer = await self._client.get(url, self._ask_for(kind, old), budget)
            record = await self._record(url, kind, answer, old)
        except FetchError as error:
            if error.final:
                self._journal.append(url, {"reason": error.reason, "detail": error.detail})
            if error.final or error.reason == PAGE_TIMEOUT:
                del self._running[url]
            raise  # others of this run that need it hear the same; the next run asks again
        self._journal.append(url, to_json(record))
        del self._running[url]
        return record

    def _intact(self, url: str, kind: str) -> MirrorRecord | None:
        """The earlier record of a URL, if its bytes are whole and the server can be asked whether they changed."""
        mirror, records = self._previous or (None, {})
        old = records.get(url)
        if mirror is None or old is None or old.kind != kind or not (old.etag or old.last_modified):
            return None
        return old if mirror.body(old) is not None else None

    def _ask_for(self, kind: str, old: MirrorRecord | None) -> Ask:
        validators = {}
        if old is not None:
            validators = {"If-None-Match": old.etag, "If-Modified-Since": old.last_modified}
            validators = {name: value for name, value in validators.items() if value}
        final_url = old.final_url if old is not None else ""
        if kind == _PAGE:
            return Ask(self._limits.page_bytes, _ACCEPT_PAGE, _only_html, validators, final_url)
        return Ask(self._limits.resource_bytes, "*/*", validators=validators, validated_url=final_url)

    async def _record(self, url: str, kind: str, answer: Answer, old: MirrorRecord | None) -> MirrorRecord:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        etag, last_modified = (answer.headers.get(name, "") for name in ("etag", "last-modified"))
        where = {"final_url": answer.final_url, "redirects": answer.redirects}
        if answer.status == 304 and old is not None and self._previous is not None:
            body = self._previous[0].body(old)
            if body is None:
                raise FetchError("previous_damaged", "its bytes in the earlier mirror are gone", final=False)
            await asyncio.to_thread(self._objects.put, body)
            fresh = {"etag": etag or old.etag, "last_modified": last_modified or old.last_modified}
            return replace(old, **where, **fresh, checked=now, not_modified=True)  # type: ignore[arg-type]
        if answer.status != 200:
            raise FetchError(f"status_{answer.status}", f"the server answered {answer.status}", final=True)
        digest, resources = await asyncio.to_thread(self._store, kind, answer)
        return MirrorRecord(
            url=url,
            canonical_url=canonical_url(url),
            kind=kind,
            **where,  # type: ignore[arg-type]
            status=answer.status,
            media_type=answer.media_type,
            charset=answer.charset,
            fetched=now,
            checked=now,
            not_modified=False,
            etag=etag,
            last_modified=last_modified,
            sha256=digest,
            size_bytes=len(answer.body),
            resources=resources,
        )

    def _store(self, kind: str, answer: Answer) -> tuple[str, tuple[str, ...]]:
        """Keep the bytes; (their digest, what they ask for: one more than is fetched shows that there is more)."""
        references: list[str] = []
        if kind == _PAGE:
            text = as_html(decode_html(answer.body, answer.charset), answer.media_type)
            references = html_references(text, answer.final_url)
        elif media_type_of(answer.final_url, answer.media_type) == "text/css":
            references = css_references(decode_css(answer.body), answer.final_url)
        return self._objects.put(answer.body), tuple(references[: self._limits.resources_per_page + 1])


def _only_html(answer: Answer) -> None:
    if answer.media_type not in HTML_TYPES:
        found = answer.media_type or "no Content-Type"
        raise FetchError("not_html", f"wanted {' or '.join(HTML_TYPES)}, found {found[:100]}", final=True)


def crawl(
    targets: Sequence[Target], crawler: Crawler, client: Client, workers: int
) -> Iterator[tuple[Target, dict[str, Any] | FetchError]]:
    """(target, value of ``Crawler.page`` or FetchError) as they finish, ``workers`` pages at a time."""
    waiting = iter(by_turns(targets))
    active: dict[asyncio.Task[dict[str, Any]], Target] = {}

    async def advance() -> set[asyncio.Task[dict[str, Any]]]:
        for target in islice(waiting, workers - len(active)):
            active[asyncio.create_task(crawler.page(target))] = target
        return (await asyncio.wait(active, return_when=FIRST_COMPLETED))[0] if active else set()

    with asyncio.Runner() as runner:
        try:
            while done := runner.run(advance()):
                for task in done:
                    error = task.exception()
                    if error is not None and not isinstance(error, FetchError):
                        raise error
                    yield active.pop(task), error or task.result()
        finally:
            runner.run(client.close())
