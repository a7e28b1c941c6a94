"""The text of an HTML file (which encoding it is in) and what its head says about it."""

import codecs
import re
from contextlib import suppress
from html.parser import HTMLParser

from tilewright.data_gen.sources.source import one_line

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SCAN_BYTES = 4096
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_LABEL = rb"\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})"
_META = re.compile(rb"<meta[^>]{0,200}?charset" + _LABEL, re.IGNORECASE)
_XML = re.compile(rb"\s{0,20}<\?xml[^>]{0,100}?encoding" + _LABEL, re.IGNORECASE)
_CODECS = {  # Encoding standard: what the web means by a name, where Python means something narrower
    "iso8859-1": "windows-1252",
    "ascii": "windows-1252",
    "iso8859-9": "windows-1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
}
_LABELS = {  # names of the Encoding standard that Python doesn't know, by the codec they stand for
    "x-sjis windows-31j": "cp932",
    "x-euc-jp cseucpkdfmtjapanese": "euc_jp",
    "x-gbk csgb2312 gb_2312 gb_2312-80": "gb18030",
    "cn-big5 x-x-big5": "big5hkscs",
    "cseuckr csksc56011987 iso-ir-149 ks_c_5601-1989 ksc_5601 windows-949": "cp949",
    "koi koi8": "koi8-r",
    "koi8-ru": "koi8-u",
    "x-mac-cyrillic x-mac-ukrainian": "mac_cyrillic",
    "mac x-mac-roman csmacintosh": "mac_roman",
    "csisolatin9": "iso8859-15",
    "iso-8859-8-i csiso88598i csiso88598e iso-8859-8-e logical visual": "iso8859-8",
    "iso-8859-6-i iso-8859-6-e csiso88596e csiso88596i": "iso8859-6",
    "sun_eu_greek": "iso8859-7",
    "windows-874 dos-874": "cp874",
    **{f"x-cp{number}": f"cp{number}" for number in range(1250, 1259)},
    **{f"iso8859{number}": f"iso8859-{number}" for number in range(1, 16) if number != 12},
    "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8": "utf-8",
    "unicode unicodefeff csunicode ucs-2 iso-10646-ucs-2": "utf-16-le",
    "unicodefffe": "utf-16-be",
}
_CODEC_OF = {label: codec for labels, codec in _LABELS.items() for label in labels.split()}
_NO_TEXT = re.compile(r"utf-?7|punycode|idna|undefined|unicode_escape|raw_unicode_escape|palmos|mbcs|oem")


def decode_html(data: bytes, charset: str = "") -> str:
    """``data`` as text: by its BOM, else by ``charset`` of the HTTP header, else by ``<meta charset>`` (or an XML
    declaration), else UTF-8 if it is valid, else Windows-1252, as browsers do. Bytes that mean nothing become U+FFFD.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(encoding, errors="replace")
    head = data[:_SCAN_BYTES]
    declared = _XML.match(head) or _META.search(_COMMENT.sub(b"", head))
    inside = _codec(declared[1].decode("ascii")) if declared else ""
    # what could be read as ASCII to find the name can't be in UTF-16
    for codec in (_codec(charset), "utf-8" if inside.startswith("utf-16") else inside):
        if codec:
            with suppress(UnicodeError):
                return data.decode(codec, errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("windows-1252", errors="replace")


def _codec(label: str) -> str:
    """Python's name of an encoding, "" if ``label`` names none that text on the web is in."""
    label = label.strip(" \t\"'").lower()
    try:
        name = codecs.lookup(_CODEC_OF.get(label, label)).name
        "".encode(name)  # raises LookupError for codecs that give no text, such as hex
    except (LookupError, ValueError, TypeError):
        return ""
    return "" if _NO_TEXT.fullmatch(name) else _CODECS.get(name, name)


_HEAD_CHARACTERS = 1 << 18
_BODY_CHARACTERS = 1 << 14  # where a first heading may stand in for a title
_HEAD_END = re.compile(r"</head|<body", re.IGNORECASE)


class Head(HTMLParser):
    """The title (else first heading) and canonical link of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._title, self._heading, self._inside = "", "", ""
        self.canonical = ""

    @property
    def title(self) -> str:
        """One line; "" if the page has neither."""
        return one_line(self._title or self._heading)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a canonical link, and that a title or heading begins."""
        values = dict(attrs)
        if tag == "link" and "canonical" in (values.get("rel") or "").lower().split() and not self.canonical:
            self.canonical = (values.get("href") or "").strip()
        if (tag == "title" and not self._title) or (tag == "h1" and not self._heading):
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        """Note that a title or heading ends."""
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        """Add to the title or heading."""
        if self._inside == "title":
            self._title += data
        elif self._inside == "h1":
            self._heading += data


def read_head(text: str) -> Head:
    """What the head of the page ``text`` says; a title may also be a heading at the beginning of its body."""
    end = _HEAD_END.search(text, 0, _HEAD_CHARACTERS)
    head = Head()
    # html.parser gives up on `<![unknown[`, Python on &#9...; with 4,300 digits: what was read so far stands
    with suppress(AssertionError, ValueError):
        head.feed(text[: (end.start() if end else 0) + _BODY_CHARACTERS])
    return head
