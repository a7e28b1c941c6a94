"""What a page needs beside its HTML: the URLs of its stylesheets, pictures and fonts."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from urllib.parse import urldefrag, urljoin, urlsplit

from tilewright.data_gen.sources.source import Resource

MAX_CSS_DEPTH = 5  # stylesheets that import stylesheets
_PICTURES = (  # (CSS selector, attribute) of what is fetched to show a page
    ("img[src]", "src"),
    ("img[data-src]", "data-src"),
    ("img[data-original]", "data-original"),
    ("input[type=image][src]", "src"),
    ("video[poster]", "poster"),
    ("object[data]", "data"),
    ("embed[src]", "src"),
    ("svg image[href]", "href"),
    ("svg use[href]", "href"),
    ("[background]", "background"),
    ("link[rel~=stylesheet][href]", "href"),
    ("link[rel~=preload][href]", "href"),
    ("link[rel~=icon][href]", "href"),
)
_SCRIPTS = (("script[src]", "src"),)
_SETS = ("srcset", "data-srcset", "imagesrcset")
_CANDIDATE = re.compile(r"([^\s,]\S*[^\s,]|[^\s,])(?:\s+[\d.]+[wxh])?\s*(?:,|$)")
_WEB = ("http", "https")


def html_references(html: str, url: str, *, scripts: bool = False) -> list[str]:
    """Absolute URLs, each once and sorted, that the page at ``url`` asks for to show itself.

    Relative ones resolve against its ``<base>``; frames and links to other pages don't count.
    """
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(html)
    head = tree.css_first("base[href]")
    base = _absolute(url, head.attributes.get("href") or "") or url if head is not None else url
    found: list[str] = []
    for selector, attribute in _PICTURES + (_SCRIPTS if scripts else ()):
        found += [node.attributes.get(attribute) or "" for node in tree.css(selector)]
    for name in _SETS:
        for node in tree.css(f"[{name}]"):
            found += _CANDIDATE.findall(node.attributes.get(name) or "")
    absolute = {_absolute(base, reference) for reference in found}
    for css in [node.text() for node in tree.css("style")]:
        absolute.update(css_references(css, base))
    for node in tree.css("[style]"):
        absolute.update(css_references(node.attributes.get("style") or "", base))
    return sorted(absolute - {""})


def css_references(css: str, url: str) -> list[str]:
    """Absolute URLs that the stylesheet at ``url`` names, sorted: imports, fonts, pictures."""
    return sorted({_absolute(url, reference) for reference in _css_urls(css)} - {""})


def collect(urls: list[str], load: Callable[[str], Resource | None]) -> Iterator[Resource]:
    """The resources behind ``urls`` and behind the stylesheets among them, each once; ``load`` gives None for a hole."""
    seen: set[str] = set()
    wanted = list(urls)
    for _ in range(MAX_CSS_DEPTH):
        further: list[str] = []
        for url in wanted:
            resource = None if url in seen else load(url)
            seen.add(url)
            if resource is None:
                continue
            if resource.media_type == "text/css":
                further += css_references(resource.data.decode("utf-8", errors="replace"), url)
            yield resource
        wanted = sorted(set(further) - seen)


@lru_cache(maxsize=64)
def _css_urls(css: str) -> tuple[str, ...]:
    if "url(" not in css.lower() and "@import" not in css.lower():
        return ()
    import tinycss2

    return tuple(_walk(tinycss2.parse_component_value_list(css, skip_comments=True)))


def _walk(tokens: list[object]) -> Iterator[str]:
    importing = False
    for token in tokens:
        kind = getattr(token, "type", "")
        if kind == "url" or (kind == "string" and importing):
            yield str(getattr(token, "value", ""))
        elif kind == "function" and getattr(token, "lower_name", "") in ("url", "image-set", "-webkit-image-set"):
            arguments = list(getattr(token, "arguments", []))
            yield from (str(item.value) for item in arguments if item.type == "string")
            yield from _walk(arguments)
        else:
            yield from _walk(list(getattr(token, "arguments", None) or getattr(token, "content", None) or []))
        if kind == "at-keyword":
            importing = getattr(token, "lower_value", "") == "import"
        elif kind != "whitespace":
            importing = False


def _absolute(base: str, reference: str) -> str:
    """``reference`` as an absolute web address without fragment; "" for data: and what is none."""
    try:
        address = urldefrag(urljoin(base, reference.strip())).url
        return address if urlsplit(address).scheme in _WEB else ""
    except ValueError:
        return ""
