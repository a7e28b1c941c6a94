"""The pages behind the tiles as text: their HTML, and what trafilatura or mwparserfromhell make of it."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.records import Page, read_jsonl
from tilewright.data_gen.sources.html_text import decode_html
from tilewright.data_gen.sources.pages_folder import PagesFolder
from tilewright.eval.cache import Cache
from tilewright.eval.tools import require_module

Parser = Literal["trafilatura", "trafilatura_recall", "mwparserfromhell"]
WIKITEXT: Parser = "mwparserfromhell"
_EXTRAS: Mapping[str, str] = {"trafilatura": "text", WIKITEXT: "quickstart"}


def module_of(parser: Parser) -> str:
    """The module that ``parser`` is a way to call. Raises MissingToolError if it isn't installed."""
    module = parser.removesuffix("_recall")
    require_module(module, _EXTRAS[module])
    return module


@dataclass(frozen=True)
class Pages:
    """Documents of the pages that are searched: ``pages`` {page_id: Page}; ``dump``: a MediaWiki dump, or None."""

    folder: Path
    pages: Mapping[str, Page]
    dump: Path | None = None

    @classmethod
    def open(cls, folder: Path, page_ids: Iterable[str], dump: Path | None = None) -> "Pages":
        """The pages of a make_pages folder that are in ``page_ids``. Raises InputError if one of them is missing."""
        known = {page.page_id: page for page in read_jsonl(folder / "pages.jsonl", Page, unique="page_id")}
        wanted = sorted(set(page_ids))
        missing = [page_id for page_id in wanted if page_id not in known]
        if missing:
            raise InputError(
                f"pages: {len(missing)} of the {len(wanted)} pages searched are not in {folder} (first: {missing[0]}):"
                " wanted the folder that the tiles were rendered from"
            )
        return cls(folder, {page_id: known[page_id] for page_id in wanted}, dump)

    def html(self, page_id: str) -> str:
        """A page's document as text. Raises ItemError for one that isn't there or is no HTML."""
        page = self.pages[page_id]
        if not page.html_path.endswith((".html", ".htm", ".xhtml")):
            raise ItemError(f"page {page_id}: its document is no HTML ({page.html_path or 'none'})")
        try:
            return decode_html(PagesFolder(self.folder).document(page.html_path))
        except (InputError, OSError) as error:
            raise ItemError(f"page {page_id}: {error}") from error

    def texts(self, parser: Parser, cache: Cache) -> tuple[dict[str, str], dict[str, str]]:
        """({page_id: text}, {page_id: error}) by ``parser``; each document is parsed once for all runs.

        mwparserfromhell reads wikitext, so it needs the dump. Raises MissingToolError, InputError without a dump.
        """
        module = module_of(parser)
        documents: dict[str, str] = {}
        errors: dict[str, str] = {}
        source = self._wikitexts().__getitem__ if parser == WIKITEXT else self.html
        for page_id in self.pages:
            try:
                documents[page_id] = source(page_id)
            except ItemError as error:
                errors[page_id] = str(error)
            except KeyError:
                errors[page_id] = "the page has no wikitext in the dump"
        digests = {
            page_id: hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() for page_id, text in documents.items()
        }

        def work(todo: Sequence[str]) -> Iterator[tuple[str, str | ItemError]]:
            for page_id in todo:
                yield page_id, _parsed(_PARSERS[parser], documents[page_id], page_id)

        part = cache.part("parses", parser, version(module), _PARSE_SETTINGS[parser])
        texts, failed = cache.values(part, parser, list(documents), digests.__getitem__, work)
        for page_id, digest in digests.items():
            if digest in failed:
                errors[page_id] = failed[digest]
        return {page_id: texts[digest] for page_id, digest in digests.items() if digest in texts}, errors

    def _wikitexts(self) -> dict[str, str]:
        from tilewright.data_gen.sources.wiki_dump import iterate_articles
        from tilewright.data_gen.urls import page_id

        if self.dump is None:
            raise InputError("wikitext: wanted the MediaWiki dump that the pages came from, for mwparserfromhell")
        articles = ((page_id(article.url), article.wikitext) for article in iterate_articles(self.dump, Counter()))
        return {found: text for found, text in articles if found in self.pages}


_PARSE_SETTINGS = {
    "trafilatura": "txt, tables, no comments",
    "trafilatura_recall": "txt, tables, no comments, favor_recall",
    WIKITEXT: "strip_code",
}


def _parsed(parse: Callable[[str], str], document: str, page_id: str) -> str | ItemError:
    """The document's text; a parser that breaks on it is an error of this page, not of the run."""
    try:
        return parse(document)
    except (ValueError, RuntimeError, RecursionError, AttributeError, TypeError, IndexError, KeyError) as error:
        return ItemError(f"page {page_id}: {type(error).__name__}: {error}")


def _trafilatura(html: str, *, recall: bool = False) -> str:
    import trafilatura

    found = trafilatura.extract(
        html, output_format="txt", include_comments=False, include_tables=True, favor_recall=recall
    )
    return found or ""


def _wikitext(wikitext: str) -> str:
    """What the published baseline does: ``strip_code``, which drops infoboxes and runs table cells together."""
    import mwparserfromhell

    return str(mwparserfromhell.parse(wikitext).strip_code())


_PARSERS: Mapping[Parser, Callable[[str], str]] = {
    "trafilatura": _trafilatura,
    "trafilatura_recall": partial(_trafilatura, recall=True),
    WIKITEXT: _wikitext,
}
