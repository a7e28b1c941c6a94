"""What a page needs beside its HTML: the URLs of its stylesheets, pictures and fonts."""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.data_gen.sources.source import Resource
from tilewright.data_gen.sources.web_address import web_address

MAX_CSS_DEPTH = 5  # stylesheets that import stylesheets
MISSING = "resources_missing"  # the count of what a page asks for and its source doesn't hold
_PICTURES = (  # (CSS selector, attribute) of what is fetched to show a page
    ("img[src]", "src"),
    ("img[data-src]", "data-src"),
    ("img[data-original]", "data-original"),
    ("img[data-lazy-src]", "data-lazy-src"),
    ("input[type=image][src]", "src"),
    ("video[poster]", "poster"),
    ("object[data]", "data"),
    ("embed[src]", "src"),
    ("svg image[href]", "href"),
    ("svg image", "xlink:href"),
    ("svg use[href]", "href"),
    ("svg use", "xlink:href"),
    ("[background]", "background"),
    ("link[rel~=stylesheet][href]", "href"),
    ("link[rel~=preload][as=style][href]", "href"),
    ("link[rel~=preload][as=font][href]", "href"),
    ("link[rel~=preload][as=image][href]", "href"),
)
_SCRIPTS = (("script[src]", "src"),)
_SETS = ("srcset", "data-srcset", "data-lazy-srcset", "imagesrcset")
_CANDIDATE_URL = re.compile(r"[\s,]*(\S+)")
_CANDIDATE_REST = re.compile(r"(?:[^,(]|\([^)]*(?:\)|$))*")
_LONG_NUMBER = re.compile(r"[0-9]{4000,}")
_IMAGE_SETS = ("image-set", "-webkit-image-set")


def html_references(html: str, url: str, *, scripts: bool = False) -> list[str]:
    """Absolute URLs, each once and sorted, that the page at ``url`` asks for to show itself.

    Relative ones resolve against its ``<base>``; frames, the page itself and links to other pages don't count.
    """
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise InputError("pages with resources need selectolax: pip install tilewright[fetch]") from error
    tree = LexborHTMLParser(html)
    head = tree.css_first("base[href]")
    base = web_address(url, head.attributes.get("href") or "") or url if head is not None else url
    found: list[str] = []
    for selector, attribute in _PICTURES + (_SCRIPTS if scripts else ()):
        found += [node.attributes.get(attribute) or "" for node in tree.css(selector)]
    for name in _SETS:
        for node in tree.css(f"[{name}]"):
            found += _candidates(node.attributes.get(name) or "")
    absolute = {web_address(base, reference) for reference in found}
    styles = [node.text() for node in tree.css("style")]
    styles += [node.attributes.get("style") or "" for node in tree.css("[style]")]
    for css in styles:
        absolute.update(web_address(base, reference) for reference in css_urls(css))
    return sorted(absolute - {"", web_address("", url)})


def css_references(css: str, url: str) -> list[str]:
    """Absolute URLs that the stylesheet at ``url`` names, sorted: imports, fonts, pictures."""
    return sorted({web_address(url, reference) for reference in css_urls(css)} - {""})


def collect(
    urls: Iterable[str], load: Callable[[str], tuple[Resource, str] | None], counts: Counter[str]
) -> Iterator[Resource]:
    """The resources behind ``urls`` and behind the stylesheets among them, each once, named as the page asks for them.

    ``load(url)`` gives a file and the address it really came from: after a redirect that is what a stylesheet's
    references resolve against, while a browser that is handed the file resolves them against what it asked for. None
    is a hole, counted as ``resources_missing``.
    """
    seen: set[str] = set()
    wanted = {url: url for url in urls}  # as the page asks -> where it is
    for depth in range(MAX_CSS_DEPTH + 1):
        further: dict[str, str] = {}
        for asked, place in wanted.items():
            seen.add(asked)
            found = load(place)
            if found is None:
                counts[MISSING] += 1
                continue
            resource, origin = found
            yield Resource(asked, resource.media_type, resource.data)
            if resource.media_type == "text/css" and depth < MAX_CSS_DEPTH:
                for reference in css_urls(decode_css(resource.data)):
                    further.setdefault(web_address(asked, reference), web_address(origin, reference))
        wanted = {asked: further[asked] for asked in sorted(further.keys() - seen - {""}) if further[asked]}


def decode_css(data: bytes) -> str:
    """A stylesheet's text; only its addresses matter here, and they are nearly always ASCII."""
    for bom, encoding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(bom):
            return data.decode(encoding, errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def _candidates(text: str) -> Iterator[str]:
    """The URLs of a srcset: up to a blank; commas at its end are separators, others belong to it (HTML standard)."""
    position = 0
    while found := _CANDIDATE_URL.match(text, position):
        url = found[1].rstrip(",")
        position = found.end()
        if url == found[1]:  # descriptors such as `2x` follow, up to a comma outside of brackets
            rest = _CANDIDATE_REST.match(text, position)
            position = rest.end() if rest else position
        if url:
            yield url


@lru_cache(maxsize=16)
def css_urls(css: str) -> tuple[str, ...]:
    """The references of a stylesheet as they stand in it: imports, fonts, pictures, each once, in order."""
    folded = css.lower()
    if not any(mark in folded for mark in ("url(", "@import", "image-set(")):
        return ()
    try:
        import tinycss2  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError("pages with stylesheets need tinycss2: pip install tilewright[fetch]") from error
    try:
        tokens = tinycss2.parse_component_value_list(css, skip_comments=True)
    except ValueError:  # of a number with more digits than Python reads (4,300)
        tokens = tinycss2.parse_component_value_list(_LONG_NUMBER.sub("0", css), skip_comments=True)
    return tuple(dict.fromkeys(_walk(tokens)))


def _walk(tokens: list[Any]) -> Iterator[str]:
    """References among CSS tokens, nested ones too; without recursion, since brackets may nest without end."""
    stack = [(iter(tokens), False)]  # (tokens, whether strings among them are URLs)
    importing = False
    while stack:
        items, strings = stack[-1]
        token = next(items, None)
        if token is None:
            stack.pop()
            continue
        kind, name = token.type, getattr(token, "lower_name", "")
        if kind == "url" or (kind == "string" and (strings or importing)):
            yield str(token.value)
        elif kind == "function":
            stack.append((iter(token.arguments), name == "url" or name in _IMAGE_SETS))
        elif kind in ("() block", "[] block", "{} block"):
            stack.append((iter(token.content), False))
        if kind == "at-keyword":
            importing = token.lower_value == "import"
        elif kind not in ("whitespace", "function"):
            importing = False
