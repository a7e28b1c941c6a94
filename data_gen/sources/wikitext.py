"""Wikitext to HTML: templates, tables, links and tags here (by mwparserfromhell), everything else by pandoc.

Tables, infoboxes and links become HTML inside the wikitext; pandoc's MediaWiki reader passes those through and
converts the wikitext in between.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from html import escape, unescape
from typing import Any
from urllib.parse import quote

import mwparserfromhell
from mwparserfromhell import nodes
from mwparserfromhell.parser import ParserError

from tilewright.configs.errors import UserError
from tilewright.configs.items import ItemError
from tilewright.data_gen.sources import infobox, templates
from tilewright.data_gen.sources.tex import readable_tex
from tilewright.data_gen.urls import title_url

PANDOC_FORMATS = ("--from=mediawiki", "--to=html", "--mathml", "--wrap=none", "--syntax-highlighting=none")
MAX_DEPTH = 40
# shown on Wikipedia as pictures, lists of sources or boxes of links: nothing of them belongs in the running text
_DROPPED_TAGS = frozenset((
    "ref", "references", "gallery", "timeline", "imagemap", "score", "graph", "mapframe", "maplink", "section",
    "script",    "inputbox", "hiero", "categorytree", "chem", "ce", "indicator", "noinclude", "style", "templatestyles",
))  # fmt: skip
_VERBATIM_TAGS = frozenset(("nowiki", "pre", "syntaxhighlight", "source"))
_KEPT_TAGS = frozenset((  # as far as pandoc passes them through
    "abbr", "b", "bdi", "bdo", "big", "blockquote", "br", "center", "cite", "code", "del", "dfn", "div", "dl", "dt",
    "dd", "em", "hr", "i", "ins", "kbd", "li", "mark", "ol", "p", "q", "rt", "ruby", "s", "samp", "small", "span",
    "strike", "strong", "sub", "sup", "tt", "u", "ul", "var",
))  # fmt: skip
_DROPPED_NAMESPACES = frozenset(("file", "image", "media", "category"))
_LANGUAGE_PREFIX = re.compile(r"[a-z]{2,3}(?:-[a-z]+)*|simple")
_SWITCHES = re.compile(r"__[A-Z]{3,}__")
_EMPTY_LINE = re.compile(r"^[*#:;]+[ \t]*$\n?", re.MULTILINE)
_EMPTY_BRACKETS = re.compile(r" ?\((?:[\s,;:]|&nbsp;|'')*\)")
_BRACKET_START = re.compile(r"\((?:(?:\s|&nbsp;)*[,;])+\s*")
_BRACKET_END = re.compile(r"(?:(?:\s|&nbsp;)*[,;])+\s*\)")
_URL_SAFE = "/:?#&=%+~@;$"  # what pandoc could take for markup or for the link's end is percent-encoded
_DOTS_AT_END = re.compile(r"\.(?=\.)|[.?;:]+$")
_LINK = re.compile(r"\[https?://\S+ ([^\[\]\n]*)\]")
_EMPTY_QUOTES = re.compile(r"(?<!')(?:'{3}\s*'{3}|'{2}\s*'{2})(?!')")
_LINK_TRAIL = re.compile(r"(\[https?://\S+ [^\[\]\n]*)\]([a-z]+)")
_ABSENT_IN_BRACKETS = re.compile(rf" ?\([^()]*{templates.ABSENT}[^()]*\)")
_HEADING = re.compile(r"^(={1,6})(.+?)\1[ \t]*$", re.MULTILINE)


class Wikitext:
    """Renders the wikitext of one article. ``removed`` counts the templates that had no rendering, by name."""

    def __init__(self, title: str, base_url: str) -> None:
        self.title, self.base_url = title, base_url
        self.removed: Counter[str] = Counter()
        self._depth = 0

    def render(self, code: Any) -> str:
        """Wikitext (string or parsed) without templates, references and pictures, with tables and links as HTML."""
        if isinstance(code, str):
            code = mwparserfromhell.parse(code, skip_style_tags=True)
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                return ""
            return "".join(self._node(node) for node in code.nodes)
        finally:
            self._depth -= 1

    def _node(self, node: Any) -> str:
        match node:
            case nodes.Text():
                return str(node)
            case nodes.Template():
                return self._template(node)
            case nodes.Wikilink():
                return self._wikilink(node)
            case nodes.ExternalLink():
                label = self.render(node.title).strip() if node.title is not None else ""
                return anchor(str(node.url).strip(), label) if label else ("" if node.brackets else str(node.url))
            case nodes.Tag():
                return self._tag(node)
            case nodes.Heading():
                return f"{'=' * node.level} {self.render(node.title).strip()} {'=' * node.level}"
            case nodes.Argument():
                return self.render(node.default) if node.default is not None else ""
            case nodes.HTMLEntity():
                return str(node)
        return ""  # comments

    def _template(self, node: Any) -> str:
        name = templates.normal_name(str(node.name.strip_code()))
        if infobox.is_infobox(name):
            return infobox.to_table(node, self)
        rendered = templates.expand(name, node, self)
        if rendered is None:
            self.removed[name] += 1
            return ""
        return rendered

    def _wikilink(self, node: Any) -> str:
        target = re.sub(r"\s+", " ", unescape(self.render(node.title))).strip()
        namespace, colon, _ = target.partition(":")
        namespace = namespace.strip().lower()
        if colon and (namespace in _DROPPED_NAMESPACES or _LANGUAGE_PREFIX.fullmatch(namespace)):
            return ""
        label = self.render(node.text).strip() if node.text is not None else escape(target.lstrip(":"), quote=False)
        page, _, fragment = target.lstrip(": ").partition("#")
        if not page:
            return label
        url = title_url(self.base_url, page) + (f"#{fragment.strip().replace(' ', '_')}" if fragment else "")
        return anchor(url, label or escape(page, quote=False))

    def _tag(self, node: Any) -> str:
        name = str(node.tag).strip().lower()
        if name in _DROPPED_TAGS:
            return ""
        if name == "math":
            return f"<math>{readable_tex(str(node.contents))}</math>"
        if name in _VERBATIM_TAGS:
            return str(node)
        if name in ("table", "tr", "td", "th", "caption"):
            return self._table_part(node, name)
        if node.wiki_markup is not None:
            return str(node.wiki_markup)
        contents = self.render(node.contents) if node.contents is not None else ""
        if name not in _KEPT_TAGS:
            return contents
        if node.self_closing or name in ("br", "hr"):
            return f"<{name}>"
        return f"<{name}>{contents}</{name}>"

    def _table_part(self, node: Any, name: str) -> str:
        """A table or a part of it as HTML; of the attributes only the spans matter."""
        if name == "table" and _is_navigation(node):
            return ""
        if name == "table":
            return self._table(node)
        contents = self.render(node.contents).strip() if node.contents is not None else ""
        if name == "tr" and not contents:
            return ""
        return f"<{name}{_spans(node)}>{_cell(contents) if name != 'tr' else contents}</{name}>\n"

    def _table(self, table: Any) -> str:
        """A whole table; the parser leaves the first row's cells loose and takes the caption for one of them."""
        caption, first_row, rest = "", "", ""
        for part in table.contents.nodes if table.contents is not None else ():
            text = self._node(part)
            if not isinstance(part, nodes.Tag) or str(part.tag).strip().lower() not in ("td", "th"):
                rest += text
            elif str(part).lstrip().startswith("|+"):
                inner = self.render(part.contents).strip().removeprefix("+").strip()
                caption = f"<caption>{_cell(inner)}</caption>\n"
            else:
                first_row += text
        first_row = f"<tr>{first_row}</tr>\n" if first_row.strip() else ""
        return f'\n<table class="wikitable">\n{caption}{first_row}{rest.strip()}\n</table>\n'


def _is_navigation(node: Any) -> bool:
    classes = str(node.get("class").value).lower() if node.has("class") else ""
    return any(word in classes for word in ("navbox", "metadata", "toc", "ambox", "noprint"))


def _spans(node: Any) -> str:
    spans = ""
    for name in ("colspan", "rowspan"):
        value = str(node.get(name).value).strip(' "') if node.has(name) else ""
        if value.isdigit() and 1 < int(value) <= 100:
            spans += f' {name}="{int(value)}"'
    return spans


def _cell(contents: str) -> str:
    """Cell text; lists and paragraphs of wikitext in it need lines of their own to be read as such."""
    contents = "\n".join(close_quotes(line) for line in contents.split("\n"))
    return f"\n{contents}\n" if "\n" in contents or contents[:1] in "*#:;{" else contents


def close_quotes(line: str) -> str:
    """Bold and italics left open end with the line, as in MediaWiki; those around nothing go."""
    line = _EMPTY_QUOTES.sub("", line)
    bold = italic = False
    for match in re.finditer(r"'{2,}", line):
        length = min(len(match.group()), 5)
        italic ^= length in (2, 5)
        bold ^= length in (3, 4, 5)
    return _EMPTY_QUOTES.sub("", line + ("''" if italic else "") + ("'''" if bold else ""))


def anchor(url: str, label: str) -> str:
    """A link in wikitext; ``label`` is wikitext too."""
    address = _DOTS_AT_END.sub(
        lambda end: "".join(f"%{ord(char):02X}" for char in end.group()), quote(url, safe=_URL_SAFE)
    )
    if not address.startswith(("http://", "https://")):
        return label
    label = close_quotes(" ".join(_LINK.sub(r"\1", label).split())).replace("[", "&#91;").replace("]", "&#93;")
    return f"[{address} {label}]"


def tidy(text: str) -> str:
    """What removed templates leave behind: empty brackets, list items and sections, stray leading blanks."""
    text = _ABSENT_IN_BRACKETS.sub("", _SWITCHES.sub("", text)).replace(templates.ABSENT, "")
    text = _LINK_TRAIL.sub(r"\1\2]", text)
    for _ in range(2):
        text = _EMPTY_BRACKETS.sub("", _BRACKET_END.sub(")", _BRACKET_START.sub("(", text)))
    text = _EMPTY_LINE.sub("", text)
    lines = [close_quotes(line) for line in text.split("\n")]
    for index, line in enumerate(lines):
        around = lines[max(0, index - 1) : index] + lines[index + 1 : index + 2]
        if line.startswith(" ") and not any(other.startswith(" ") and other.strip() for other in around):
            lines[index] = line.lstrip()  # a lone one would become preformatted text
    return _without_empty_sections("\n".join(lines))


def _without_empty_sections(text: str) -> str:
    """Drop headings under which nothing stands before the next heading of their level or above."""
    pieces = _split_sections(text)
    kept: list[str] = []
    level_with_content = 0  # sections of a lower level than this have something below them
    for level, heading, body in reversed(pieces):
        if body.strip() or level_with_content > level:
            kept.append(heading + body)
            level_with_content = level
        elif level <= level_with_content:
            level_with_content = min(level_with_content, level)
    return "".join(reversed(kept))


def _split_sections(text: str) -> list[tuple[int, str, str]]:
    """(level, heading line, text up to the next heading); level 0 for what stands before the first."""
    matches = list(_HEADING.finditer(text))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    first = text[: matches[0].start()] if matches else text
    rest = (
        [(len(m[1]), m.group(), text[m.end() : end]) for m, end in zip(matches, ends, strict=True)] if matches else []
    )
    return [(0, "", first), *rest]


def article_body(title: str, wikitext: str, base_url: str, timeout_s: float) -> tuple[str, Counter[str]]:
    """HTML of an article's body and the templates removed from it. Raises ItemError.

    Reasons: it can't be taken apart or read, or pandoc fails, is too slow or doesn't write UTF-8.
    """
    renderer = Wikitext(title, base_url)
    try:
        return _pandoc(tidy(renderer.render(wikitext)), timeout_s), renderer.removed
    except UserError:
        raise
    except (ParserError, RecursionError, ArithmeticError, ValueError) as error:  # also of numbers without end
        raise ItemError(f"{title!r} can't be converted: {type(error).__name__}: {error}") from error


def _pandoc(text: str, timeout_s: float, options: Iterable[str] = PANDOC_FORMATS) -> str:
    command = [pandoc_path(), "+RTS", "-M1g", "-RTS", *options]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise ItemError(f"pandoc took more than {timeout_s} s") from error
    if done.returncode != 0:
        raise ItemError(f"pandoc failed with status {done.returncode}: {done.stderr.decode(errors='replace')[:300]}")
    return done.stdout.decode()


def pandoc_path() -> str:
    """The pandoc program of pypandoc_binary."""
    import pypandoc

    return str(pypandoc.get_pandoc_path())
