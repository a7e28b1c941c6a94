"""MediaWiki XML dumps, plain or bz2, read as a stream: memory stays that of one page whatever the dump's size."""

import bz2
import importlib.util
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

from tilewright.configs.digests import digest_text
from tilewright.configs.errors import InputError
from tilewright.data_gen.sources.source import Document, Entry, one_line
from tilewright.data_gen.urls import title_url

_GENSIM_DUMP = "test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
_CONVERTERS = ("mwparserfromhell", "pypandoc")


@dataclass(frozen=True)
class Article:
    """A page of the dump: its address, title, wikitext and when it was last revised (ISO 8601, "" if unknown)."""

    url: str
    title: str
    wikitext: str
    base_url: str
    revised: str = ""


class WikiDump:
    """A MediaWiki dump as a source of pages; conversion of one page is bounded by ``timeout_s``."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        missing = [name for name in _CONVERTERS if importlib.util.find_spec(name) is None]
        if missing:
            raise InputError(f"source wiki_dump needs {' and '.join(missing)}: pip install tilewright[quickstart]")
        self._path, self._timeout_s = path, timeout_s
        self._style = resources.files("tilewright.data_gen").joinpath("page.css").read_text(encoding="utf-8")

    def entries(self, skipped: Counter[str]) -> Iterator[Entry]:
        """One entry an article. Raises InputError as ``iterate_articles``."""
        for article in iterate_articles(self._path, skipped):
            yield Entry(article.url, article.title, f"title {article.title!r}")

    def documents(self, wanted: set[str]) -> Iterator[tuple[str, Article]]:
        """(URL, article) of the wanted URLs, in the order of the dump."""
        missing = set(wanted)
        for article in iterate_articles(self._path, Counter()):
            if article.url in missing:
                missing.discard(article.url)
                yield article.url, article
            if not missing:
                return

    def convert(self, url: str, raw: Article) -> Document:
        """The article as a page of its own: no scripts, no remote resources, our stylesheet inside."""
        from tilewright.data_gen.sources.wikitext import article_body  # of an extra that other sources do without

        body, removed = article_body(raw.title, raw.wikitext, raw.base_url, self._timeout_s)
        title = escape(raw.title)
        page = (
            f'<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
            f'<link rel="canonical" href="{escape(url)}">\n<style>\n{self._style}</style>\n</head>\n<body>\n'
            f"<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
        )
        return Document(
            data=page.encode("utf-8", errors="replace"),
            suffix=".html",
            content_sha256=digest_text(raw.wikitext),
            fetched=raw.revised,
            counts={"unknown_templates_removed": removed.total()},
        )


def default_dump() -> Path | None:
    """The 106-article English Wikipedia dump inside the installed gensim wheel (which isn't imported), or None."""
    spec = importlib.util.find_spec("gensim")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / _GENSIM_DUMP
    return path if path.is_file() else None


def iterate_articles(path: Path, skipped: Counter[str]) -> Iterator[Article]:
    """Stream the articles of a dump; redirects, other namespaces and empty pages are counted in ``skipped``.

    Raises InputError for a file that is cut short, is no MediaWiki dump or isn't well-formed.
    """
    count = 0
    try:
        with _open(path) as file:
            for element, base_url in _page_elements(path, file):
                article = _article(element, base_url, skipped)
                count += 1
                if article is not None:
                    yield article
    except InputError:
        raise
    except (EOFError, OSError, LookupError, ValueError, ElementTree.ParseError) as error:
        raise InputError(
            f"{path}: dump is truncated or damaged after {count} pages ({error}): download it again"
        ) from error


def _open(path: Path) -> IO[bytes]:
    if not path.is_file():
        raise InputError(f"{path}: wanted a MediaWiki XML dump (plain or .bz2), found no such file")
    with path.open("rb") as file:
        compressed = file.read(3) == b"BZh"
    return bz2.open(path, "rb") if compressed else path.open("rb")


def _page_elements(path: Path, file: IO[bytes]) -> Iterator[tuple[ElementTree.Element, str]]:
    """(page element, base URL of titles); elements are freed as the stream goes on."""
    base_url, root = "", None
    for event, element in ElementTree.iterparse(file, events=("start", "end")):
        name = _local(element)
        if root is None:
            root = element
            if name != "mediawiki":
                raise InputError(f"{path}: wanted a MediaWiki XML dump, found a root element <{name}>")
        if event == "end" and name == "base":
            base_url = (element.text or "").rpartition("/")[0] + "/"
        if event == "end" and name == "page":
            if not base_url:
                raise InputError(f"{path}: wanted <siteinfo><base> before the first page, found none")
            yield element, base_url
            root.clear()


def _article(page: ElementTree.Element, base_url: str, skipped: Counter[str]) -> Article | None:
    fields: dict[str, Any] = {_local(child): child for child in page}
    if "redirect" in fields:
        skipped["redirects"] += 1
        return None
    if "ns" in fields and (fields["ns"].text or "").strip() != "0":
        skipped["other_namespaces"] += 1
        return None
    title = one_line(fields["title"].text or "") if "title" in fields else ""
    texts = [child.text or "" for child in page.iter() if _local(child) == "text"]
    if not title or not texts or not texts[-1].strip():
        skipped["empty_pages"] += 1
        return None
    revised = next((child.text or "" for child in page.iter() if _local(child) == "timestamp"), "")
    return Article(title_url(base_url, title), title, texts[-1], base_url, one_line(revised))


def _local(element: ElementTree.Element) -> str:
    """Tag without its XML namespace."""
    return str(element.tag).rpartition("}")[2]
