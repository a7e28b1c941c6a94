"""XHTML as HTML: pages are shown by a browser's HTML parser, which takes ``<script/>`` for a script without an end."""

import re
from html import escape

XHTML_TYPE, XHTML_SUFFIX = "application/xhtml+xml", ".xhtml"
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr")
)
_ATTRIBUTES = r"""(?:[^<>"']|"[^"<]*"|'[^'<]*')*"""  # XML allows no < in values: a match ends at the next tag
_PIECE = re.compile(
    r"<!--.*?(?:-->|\Z)"
    rf"|<(?P<raw>script|style)(?=[\s>]){_ATTRIBUTES}(?<!/)>.*?(?:</(?P=raw)|\Z)"
    r"|<!\[CDATA\[(?P<text>.*?)(?:\]\]>|\Z)"
    rf"|(?P<tag><(?P<name>[A-Za-z_][^\s/<>\"']*){_ATTRIBUTES})/>",
    re.DOTALL,
)


def html_of_xhtml(text: str) -> str:
    """``text`` for an HTML parser: empty elements have end tags, CDATA sections are text, the mode is the standard one.

    The parts of XHTML 1.0's appendix C that change what is shown; what isn't well-formed stays as it is.
    """
    html = _PIECE.sub(_as_html, text)
    return html if re.search(r"<!doctype", html[:4096], re.IGNORECASE) else f"<!DOCTYPE html>{html}"


def as_html(text: str, media_type: str) -> str:
    """``text`` of a page for an HTML parser: XHTML as ``html_of_xhtml`` writes it, all else as it is."""
    return html_of_xhtml(text) if media_type == XHTML_TYPE else text


def _as_html(piece: re.Match[str]) -> str:
    if piece["text"] is not None:
        return escape(piece["text"], quote=False)
    if piece["tag"] is None or piece["name"].lower() in _VOID:
        return piece[0]
    return f"{piece['tag']}></{piece['name']}>"
