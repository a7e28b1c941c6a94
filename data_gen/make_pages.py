"""pages: a source (MediaWiki dump, folder of HTML files, ...) -> pages.jsonl, a document a page, what it shows."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError, process_items
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main
from tilewright.data_gen.records import Page, write_jsonl
from tilewright.data_gen.sources.html_folder import HtmlFolder
from tilewright.data_gen.sources.mirror import MirrorSource
from tilewright.data_gen.sources.pages_folder import PagesFolder
from tilewright.data_gen.sources.source import Entry, Source
from tilewright.data_gen.sources.wiki_dump import WikiDump, default_dump


@dataclass(frozen=True)
class Config:
    """What make_pages does.

    ``path``: the dump (XML or XML.bz2), the folder of HTML files, the mirror that fetch_pages wrote (``urls``), the ZIM
    archive, the folder of PDFs or pictures (or one file of them); None with ``wiki_dump`` is the 106-article dump
    inside the gensim wheel. ``base_url``: address of a folder's or archive's root (a page's own ``<link
    rel=canonical>`` goes before it). ``titles`` and ``max_pages`` keep only some pages. ``page_timeout_s`` bounds a
    page's conversion.
    """

    source: Literal["wiki_dump", "html_folder", "urls", "zim", "pdf", "images"]
    out: Path
    workers: int = execution()
    path: Path | None = input_path(default=None)
    base_url: str | None = None
    titles: tuple[str, ...] | None = None
    max_pages: int | None = None
    same_url: Literal["error", "drop"] = "error"
    page_timeout_s: float = 60.0
    max_error_share: float = execution(default=0.02)

    def __post_init__(self) -> None:
        if self.source == "wiki_dump" and self.path is None:
            object.__setattr__(self, "path", default_dump())  # so that the dump is part of the request's identity
        if self.workers < 1 or (self.max_pages is not None and self.max_pages < 1):
            raise ValueError(f"workers and max_pages: wanted at least 1, found {self.workers} and {self.max_pages}")


def make_pages(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write pages.jsonl (in order of page_id), documents/ and resources/. Raises InputError for an empty corpus."""
    source = SOURCES[config.source](config)
    counts: Counter[str] = Counter()
    entries = _select(source.entries(counts), config, counts)
    if not entries:
        raise InputError(f"{config.path}: no pages in this corpus ({dict(counts)}); wanted at least one")
    folder = PagesFolder(out)
    finished = process_items(
        "make_pages",
        entries,
        lambda entry: entry.page_id,
        lambda todo: _convert(source, todo, config.workers, folder),
        out,
        max_error_share=config.max_error_share,
    )
    pages = [
        Page(entry.page_id, entry.url, entry.title, source=config.source, **finished[entry.page_id]["page"])
        for entry in entries
        if entry.page_id in finished
    ]
    write_jsonl(out / "pages.jsonl", pages)
    left_out = Counter[str]()
    for value in finished.values():
        left_out.update(value["counts"])
    return {"pages": len(pages), "failed": len(entries) - len(pages)} | counts | left_out


def _wiki_dump(config: Config) -> Source:
    wanted = (
        "a MediaWiki dump, and the default one isn't there: `pip install tilewright[quickstart]` brings it (inside the"
        " gensim wheel)"
    )
    return WikiDump(_path(config, wanted), config.page_timeout_s)


def _html_folder(config: Config) -> Source:
    return HtmlFolder(_path(config, "a folder of HTML files"), config.base_url)


def _urls(config: Config) -> Source:
    return MirrorSource(_path(config, "a mirror, as fetch_pages writes it from a list of URLs"))


def _path(config: Config, wanted: str) -> Path:
    if config.path is None:
        raise InputError(f"path: wanted {wanted}")
    return config.path


def _zim(config: Config) -> Source:
    from tilewright.data_gen.sources.zim import Zim

    return Zim(_path(config, "a ZIM archive"), config.base_url)


def _pdf(config: Config) -> Source:
    from tilewright.data_gen.sources.pictures import PdfFolder

    return PdfFolder(_path(config, "a PDF file or a folder of them"), config.base_url)


def _images(config: Config) -> Source:
    from tilewright.data_gen.sources.pictures import ImageFolder

    return ImageFolder(_path(config, "a picture or a folder of them"), config.base_url)


SOURCES: dict[str, Callable[[Config], Source]] = {
    "wiki_dump": _wiki_dump,
    "html_folder": _html_folder,
    "urls": _urls,
    "zim": _zim,
    "pdf": _pdf,
    "images": _images,
}


def _select(entries: Iterable[Entry], config: Config, counts: Counter[str]) -> list[Entry]:
    """The wanted entries in order of page_id. Raises InputError for two with one URL, and for unknown titles."""
    by_id: dict[str, Entry] = {}
    for entry in entries:
        other = by_id.get(entry.page_id)
        if other is None:
            by_id[entry.page_id] = entry
        elif config.same_url == "drop":
            counts["dropped_same_url"] += 1
        else:
            raise InputError(
                f"{config.path}: two pages have the URL {entry.url}: {other.place} and {entry.place}; remove one, or"
                " set same_url: drop to keep the first"
            )
    kept = [by_id[key] for key in sorted(by_id)]
    if config.titles is not None:
        missing = set(config.titles) - {entry.title for entry in kept}
        if missing:
            raise InputError(f"{config.path}: titles: no page is called {sorted(missing)}")
        kept = [entry for entry in kept if entry.title in config.titles]
    return kept[: config.max_pages]


def _convert(
    source: Source, todo: Sequence[Entry], workers: int, folder: PagesFolder
) -> Iterator[tuple[Entry, dict[str, Any] | ItemError]]:
    """Make the pages of ``todo`` in ``workers`` threads (pandoc runs outside Python), few documents in memory."""
    by_url = {entry.url: entry for entry in todo}
    running: dict[Future[dict[str, Any]], Entry] = {}
    with ThreadPoolExecutor(workers) as pool:
        for url, raw in source.documents(set(by_url)) if by_url else ():
            running[pool.submit(_write_page, source, by_url[url], raw, folder)] = by_url[url]
            if len(running) >= 2 * workers:
                yield from _finished(running)
        while running:
            yield from _finished(running)


def _finished(
    running: dict[Future[dict[str, Any]], Entry],
) -> Iterator[tuple[Entry, dict[str, Any] | ItemError]]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        entry = running.pop(future)
        try:
            yield entry, future.result()
        except ItemError as error:
            yield entry, error


def _write_page(source: Source, entry: Entry, raw: Any, folder: PagesFolder) -> dict[str, Any]:
    """What the journal keeps of a page: its fields in ``Page``, and counts."""
    document = source.convert(entry.url, raw)
    path, resources = folder.write(entry.page_id, document)
    page = {
        "html_path": path,
        "document_url": document.document_url,
        "fetched": document.fetched,
        "content_sha256": document.content_sha256,
    }
    return {"page": page, "counts": {"resources": resources, **document.counts}}


STAGE = Stage("make_pages", Config, make_pages, schema=2)

if __name__ == "__main__":
    main(STAGE)
