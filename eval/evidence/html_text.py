"""The text that a page shows in an element: breaks kept as lines, footnote marks and hidden parts left out."""

import re

from tilewright.eval.evidence.html_tree import Node

SKIPPED_TAGS = frozenset({"head", "noframes", "iframe", "noembed", "textarea", "nav", "datalist"})
SKIPPED_CLASSES = frozenset({"navbox", "mw-editsection", "mw-empty-elt", "noprint", "t-navbar", "editsection"})
SKIPPED_IDS = frozenset({"toc"})
# fmt: off
BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog",
    "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4",
    "h5", "h6", "header", "hgroup", "hr", "html", "legend", "li", "main", "menu", "ol", "p", "pre", "search",
    "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
})
# fmt: on
MAX_LABEL_CHARS = 300  # of what is repeated as context or label of other texts
_BOLD = re.compile(r"font-weight\s*:\s*(?:bold|[6-9]00)", re.IGNORECASE)
_HIDING = re.compile(r"(?:^|[;\s])display\s*:\s*none", re.IGNORECASE)
BREAK, _SPACE, _END_OF_PRE = "\0", "\1", "\0\0"  # the parser lets no NUL through; a page's own \1 shows nothing
_KEEP_SPACES = str.maketrans({"\n": BREAK, " ": _SPACE, "\t": _SPACE * 4})


def is_hidden(node: Node) -> bool:
    """Whether the element says so itself: ``hidden`` or an inline ``display: none``."""
    attributes = node.attributes
    return "hidden" in attributes or ("style" in attributes and _HIDING.search(attributes["style"] or "") is not None)


def is_skipped(node: Node) -> bool:
    """Whether an element and all in it is no content: navigation, edit links, footnote marks, hidden parts."""
    if node.tag in SKIPPED_TAGS:
        return True
    attributes = node.attributes
    if not attributes:
        return False
    classes = attributes.get("class")
    if classes:
        names = classes.split()
        if not SKIPPED_CLASSES.isdisjoint(names) or (node.tag == "sup" and "reference" in names):
            return True
    return attributes.get("id") in SKIPPED_IDS or is_hidden(node)


def text_of(node: Node, *, tables: list[Node] | None = None, alt: bool = False) -> str:
    """The text in ``node``, one line a block or <br>, spaces collapsed (in <pre> kept), empty lines left out.

    ``tables``: tables inside are added to it and their text is left out; None: it is part of the text. ``alt``: with
    the pictures' alternative texts.
    """
    pieces: list[str] = []
    gather(node, pieces, tables=tables, alt=alt, in_pre=node.tag == "pre")
    return lines_of(pieces)


def gather(
    node: Node, pieces: list[str], *, tables: list[Node] | None = None, alt: bool = False, in_pre: bool = False
) -> None:
    """Add the text below ``node`` to ``pieces``, breaks as marks that ``lines_of`` reads; ``in_pre`` keeps spaces."""
    stack: list[Node | str] = list(reversed(node.children))
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
            in_pre = in_pre and item != _END_OF_PRE
        elif not item.tag:
            pieces.append(leaf(item.text, in_pre=in_pre))
        elif item.tag == "br":
            pieces.append(BREAK)
        elif item.tag == "img":
            if alt:
                pieces.append(f" {item.get('alt')} ")
        elif is_skipped(item):
            continue
        elif item.tag == "table" and tables is not None:
            tables.append(item)
            pieces.append(BREAK)
        elif item.tag in BLOCKS:
            pieces.append(BREAK)
            stack.append(_END_OF_PRE if item.tag == "pre" and not in_pre else BREAK)
            in_pre = in_pre or item.tag == "pre"
            stack.extend(reversed(item.children))
        else:
            stack.extend(reversed(item.children))


def leaf(text: str, *, in_pre: bool) -> str:
    """A text leaf as ``gather`` adds it."""
    return text.translate(_KEEP_SPACES) if in_pre else text


def lines_of(pieces: list[str]) -> str:
    """What ``gather`` collected, as lines."""
    text = "".join(pieces)
    if BREAK not in text and _SPACE not in text:
        return " ".join(text.split())
    lines = [" ".join(line.split()).replace(_SPACE, " ").rstrip() for line in text.split(BREAK)]
    return "\n".join(line for line in lines if line)


def as_label(text: str) -> str:
    """``text`` in one line, as it stands above other texts: cut to MAX_LABEL_CHARS, at a space if there is one."""
    if len(text) <= MAX_LABEL_CHARS:
        return text.replace("\n", " ")
    start = text[: MAX_LABEL_CHARS - 1].replace("\n", " ")
    return (start[: start.rfind(" ")] if " " in start else start) + "…"


def is_bold(node: Node) -> bool:
    """Whether all text in ``node`` is bold by markup or inline style, and there is some."""
    stack, found = [(node, _says_bold(node))], False
    while stack:
        item, bold = stack.pop()
        if not item.tag:
            if item.text.strip():
                found = True
                if not bold:
                    return False
        elif item is node or not is_skipped(item):
            stack.extend((child, bold or _says_bold(child)) for child in item.children)
    return found


def _says_bold(node: Node) -> bool:
    return node.tag in ("b", "strong") or bool(_BOLD.search(node.attributes.get("style") or ""))
