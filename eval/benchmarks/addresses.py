"""Gold URLs as benchmarks spell them -> canonical URLs (design: one spelling per page address)."""

import html
import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from tilewright.configs.errors import InputError
from tilewright.data_gen.urls import canonical_url, title_url

WIKIPEDIA = "https://en.wikipedia.org/wiki/"
_START = re.compile(r"(?<![/=])(?=https?://)")  # two run together are two; the one inside an archive's address isn't
_END = re.compile(r"[\s\"'<>|\\^`{}]")
_TITLE = re.compile(r"[?&]title=([^&#]+)")


def gold_urls(texts: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """(canonical URLs in ``texts``, each once, in order; how many texts hold something that is none).

    A text may hold several, run together or with words around them. MediaWiki's ``/w/index.php?title=...`` is the
    address of its article; HTML escapes are undone.
    """
    found: dict[str, None] = {}
    unusable = 0
    for text in texts:
        urls = [_article(url) for url in _urls_in(html.unescape(text))]
        usable = [url for url in urls if url is not None]
        found |= dict.fromkeys(usable)
        unusable += bool(text.strip()) and (not urls or len(usable) < len(urls))
    return tuple(found), unusable


def title_urls(titles: Iterable[str]) -> tuple[str, ...]:
    """Addresses of the English Wikipedia's articles with these titles, each once, in order."""
    named = (html.unescape(title).strip() for title in titles)
    return tuple(dict.fromkeys(title_url(WIKIPEDIA, title) for title in named if title))


def _urls_in(text: str) -> list[str]:
    parts = [part for part in _START.split(text) if part.startswith(("http://", "https://"))]
    return [_trimmed(_END.split(part, maxsplit=1)[0]) for part in parts]


def _trimmed(url: str) -> str:
    """Without what follows it in a list; a closing bracket stays if it was opened, a full stop (``D.C.``) always."""
    url = url.rstrip(",;")
    while url.endswith((")", "]")) and url.count(url[-1]) > url.count({")": "(", "]": "["}[url[-1]]):
        url = url[:-1].rstrip(",;")
    return url


def _article(url: str) -> str | None:
    try:
        title = _TITLE.search(url)
        parts = urlsplit(url)
        if title is not None and parts.path.endswith("/index.php"):
            return title_url(f"{parts.scheme}://{parts.netloc}/wiki/", unquote(title[1]))
        return canonical_url(url)
    except (InputError, ValueError):
        return None
