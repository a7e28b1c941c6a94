"""fetch_pages: a list of URLs -> a local mirror of the pages and what they show. Rendering then needs no network."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.configs.digests import LOGS
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError, process_items
from tilewright.configs.journal import Journal
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main
from tilewright.data_gen.fetch.mirror import FAILED, MIRROR, OBJECTS, Failure, Mirror, MirrorRecord, Objects
from tilewright.data_gen.fetch.settings import Limits, Politeness
from tilewright.data_gen.fetch.url_list import Target, read_url_list
from tilewright.data_gen.records import from_json, write_jsonl

FETCHED = ".fetched.jsonl"
REQUESTS = "requests.jsonl"
_USER_AGENT = re.compile(r"[A-Za-z_-]+(?:/[!-~]+)?(?: [ -~]+)?")


@dataclass(frozen=True)
class Config:
    """What fetch_pages does.

    ``urls``: a text file, one URL a line (``#`` starts a comment line). ``user_agent``: product/version and how to
    reach you, such as ``mybot/1.0 (+https://example.org/bot)``; robots.txt is asked about its product. ``previous``: an
    earlier mirror; what its servers say hasn't changed since is taken from it. ``allow_private_hosts``: also fetch from
    loopback, private and link-local addresses. ``workers``: pages at a time. ``max_error_share`` is of the pages.
    """

    out: Path
    user_agent: str
    urls: Path = input_path()
    previous: Path | None = input_path(default=None)
    allow_private_hosts: bool = False
    politeness: Politeness = field(default_factory=Politeness)
    limits: Limits = field(default_factory=Limits)
    workers: int = execution(default=16)
    max_error_share: float = execution(default=0.02)

    def __post_init__(self) -> None:
        if not _USER_AGENT.fullmatch(self.user_agent):
            raise ValueError(f"user_agent: wanted such as `mybot/1.0 (+https://...)`, found {self.user_agent!r}")
        if self.workers < 1:
            raise ValueError(f"workers: wanted at least 1, found {self.workers}")


def fetch_pages(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write mirror.jsonl (by canonical URL), failed.jsonl and objects/. What it writes is what servers answered."""
    counts: Counter[str] = Counter()
    targets = read_url_list(config.urls, counts)
    failed: dict[str, ItemError] = {}
    with Journal(out / FETCHED) as journal:
        finished = process_items(
            "fetch_pages",
            targets,
            lambda target: target.key,
            lambda todo: _fetch(config, todo, targets, journal, out, failed),
            out,
            max_error_share=config.max_error_share,
        )
        records = _records(journal)
        failures = _failures(targets, failed, finished, journal)
        write_jsonl(out / MIRROR, (from_json(MirrorRecord, journal[url]) for _, url in records))
        write_jsonl(out / FAILED, failures)
        kept = {str(journal[url]["sha256"]): int(journal[url]["size_bytes"]) for _, url in records}
        Objects(out / OBJECTS).keep_only(set(kept))
        kinds = Counter(journal[url]["kind"] for _, url in records)
        not_modified = sum(journal[url]["not_modified"] for _, url in records)
    for failure in failures:
        prefix = "failed" if failure.kind == "page" else "resources_failed"
        counts.update((prefix, f"{prefix}_{failure.reason}"))
    fetched = {"pages": kinds["page"], "resources": kinds["resource"], "not_modified": not_modified}
    return {"network": True, **fetched, "bytes": sum(kept.values()), "failed": 0, "resources_failed": 0} | counts


def _fetch(
    config: Config,
    todo: Sequence[Target],
    targets: Sequence[Target],
    journal: Journal,
    out: Path,
    failed: dict[str, ItemError],
) -> Iterator[tuple[Target, dict[str, Any] | ItemError]]:
    """Fetch the pages of ``todo``; the failures go into ``failed`` too."""
    try:
        from tilewright.data_gen.fetch.client import Client
        from tilewright.data_gen.fetch.crawl import Crawler, crawl
    except ImportError as error:
        raise InputError(f"fetch_pages needs {error.name}: pip install tilewright[fetch]") from error
    previous = None
    if config.previous is not None:
        mirror = Mirror(config.previous)
        previous = mirror, {record.url: record for record in mirror.records()}
    (out / LOGS).mkdir(exist_ok=True)
    with (out / LOGS / REQUESTS).open("a", encoding="utf-8") as log:
        allow = config.allow_private_hosts
        client = Client(config.user_agent, config.politeness, config.limits, allow_private_hosts=allow, log=log)
        page_urls = frozenset(target.url for target in targets)
        objects = Objects(out / OBJECTS)
        crawler = Crawler(client, objects, journal, config.limits, page_urls=page_urls, previous=previous)
        for target, value in crawl(todo, crawler, client, config.workers):
            if isinstance(value, ItemError):
                failed[target.key] = value
            yield target, value


def _records(journal: Journal) -> list[tuple[str, str]]:
    """(canonical URL, URL) of all that was fetched, sorted."""
    return sorted((journal[url]["canonical_url"], url) for url in journal if "reason" not in journal[url])


def _failures(
    targets: Sequence[Target], failed: dict[str, ItemError], finished: dict[str, Any], journal: Journal
) -> list[Failure]:
    """Pages that failed, then resources that are missing, by URL. What another page got in the end isn't missing."""
    pages = [
        Failure(target.url or target.key, "page", *_reason(failed[target.key]))
        for target in targets
        if target.key in failed
    ]
    page_urls = {target.url for target in targets}
    missing = {
        url: (journal[url]["reason"], journal[url]["detail"])
        for url in journal
        if "reason" in journal[url] and url not in page_urls
    }
    for value in finished.values():
        for url, reason in value["missing"].items():
            if url in page_urls or url not in journal:
                missing.setdefault(url, tuple(reason))
    return pages + [Failure(url, "resource", *missing[url]) for url in sorted(missing)]


def _reason(error: ItemError) -> tuple[str, str]:
    reason, _, detail = str(error).partition(": ")
    return reason, detail


STAGE = Stage("fetch_pages", Config, fetch_pages)

if __name__ == "__main__":
    main(STAGE)
