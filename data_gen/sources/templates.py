"""Renderings of MediaWiki templates that carry text: dates, units, languages, lists, quotations, citations.

``expand`` gives wikitext (with HTML where it is simpler), "" for templates that show nothing in the text, and None for
unknown ones, which the caller removes and counts.
"""

import re
from collections.abc import Callable
from typing import Any, Protocol

from tilewright.data_gen.sources.template_dates import DATES

SILENT = re.compile(
    r"(use .* (dates|english)|pp-.*|pp|good article|featured article|.* icon|flagicon.*|citation needed|cn|clarify.*|when|who|which"
    r"|page needed|dead link|failed verification|refimprove.*|unreferenced.*|expand.*|multiple issues|more footnotes"
    r"|reflist.*|refbegin|refend|sfn.*|rp|r|refn|efn.*|notelist.*|harvid|wayback|webarchive|authority control|portal.*"
    r"|commons.*|wiktionary.*|wikiquote.*|wikisource.*|wikibooks.*|sister project.*|navboxes.*|clear.*|div col.*"
    r"|col.*|toc.*|about.*|other uses.*|for|for2|redirect.*|distinguish|hatnote|coord|geographic location|ipac?-.*|respell"
    r"|s-.*|start box|end box|succession box|chart.*|clade.*|wide image|multiple image|double image|css image crop|dmoz"
    r"|imdb.*|increase|decrease|steady|anchor|short description|library resources box|gutenberg author|inflation.*"
    r"|map caption|fossil.range|nomorelinks|no more links|audio|listen|bots|italic title|displaytitle.*|speaker.*)"
)
Handler = Callable[[list[str], dict[str, str]], str]


class Renderer(Protocol):
    """What renders the wikitext inside a template."""

    title: str

    def render(self, code: Any) -> str: ...


def normal_name(name: str) -> str:
    """Template name in lower case, one blank between words."""
    return re.sub(r"[\s_]+", " ", re.sub(r"<!--.*?-->", "", name, flags=re.DOTALL)).strip().lower()


def arguments(node: Any, renderer: Renderer) -> tuple[list[str], dict[str, str]]:
    """(positional, named) arguments of a template, rendered."""
    positional: dict[int, str] = {}
    named: dict[str, str] = {}
    for param in node.params:
        key, value = str(param.name).strip(), renderer.render(param.value).strip()
        if key.isdigit() and 0 < int(key) <= 500:
            positional[int(key)] = value
        else:
            named[key.lower()] = value
    return [positional.get(index, "") for index in range(1, max(positional, default=0) + 1)], named


def expand(name: str, node: Any, renderer: Renderer) -> str | None:
    """The text of a template, "" if it shows none, None if it isn't known."""
    handler = HANDLERS.get(name) or _by_prefix(name)
    if handler is not None:
        return handler(*arguments(node, renderer))
    if name in CHARACTERS:
        return CHARACTERS[name]
    return "" if SILENT.fullmatch(name) else None


def _by_prefix(name: str) -> Handler | None:
    if name.startswith("lang-"):
        return _language_of(name)
    if name.startswith("cite ") or name in ("citation", "vcite book"):
        return _citation
    if name.startswith(("formatnum:", "lc:", "uc:")):
        text = name.partition(":")[2]
        return lambda positional, named: text
    return None


def _first(positional: list[str], named: dict[str, str]) -> str:
    return positional[0] if positional else ""


def _second(positional: list[str], named: dict[str, str]) -> str:
    return positional[1] if len(positional) > 1 else _first(positional, named)


def _last(positional: list[str], named: dict[str, str]) -> str:
    return positional[-1] if positional else ""


def _language_of(name: str) -> Handler:
    languages = {"ar": "Arabic", "az": "Azerbaijani", "ca": "Catalan", "de": "German", "el": "Greek", "es": "Spanish"}
    languages |= {"fa": "Persian", "fr": "French", "grc": "Ancient Greek", "he": "Hebrew", "it": "Italian"}
    languages |= {"la": "Latin", "pt": "Portuguese", "ru": "Russian", "rus": "Russian", "sq": "Albanian"}
    language = languages.get(name.removeprefix("lang-").partition("-")[0])

    def handler(positional: list[str], named: dict[str, str]) -> str:
        text = f"''{_first(positional, named)}''"
        return f"{language}: {text}" if language else text

    return handler


def _convert(positional: list[str], named: dict[str, str]) -> str:
    """{{convert|10|km|mi}}, {{convert|3|to|5|km}}, {{convert|5|ft|11|in}}: the values as given, with readable units."""
    joiners = {"to": "to", "-": "–", "–": "–", "and": "and", "or": "or", "x": "×", "by": "×", "±": "±", "to(-)": "to"}
    words: list[str] = []
    numbers_expected = True
    for index, value in enumerate(positional):
        if re.fullmatch(r"[-+−]?[\d.,/eE⁄]+|\d+[+ ]\d+/\d+", value):
            if not numbers_expected and not _followed_by_unit(positional, index):
                break
            words.append(value)
        elif value in joiners:
            words.append(joiners[value])
        elif words and numbers_expected:
            words.append(_UNITS.get(value, value))
            numbers_expected = False
            if not _followed_by_unit(positional, index + 1):
                break
        else:
            break
    return "&nbsp;".join(words).replace("&nbsp;–&nbsp;", "–")


def _followed_by_unit(positional: list[str], index: int) -> bool:
    """Whether a further value with its unit stands at ``index``: the 11 and in of 5 ft 11 in."""
    pair = positional[index : index + 2]
    return len(pair) == 2 and pair[0].isdigit() and pair[1] in ("in", "oz", "lb", "ft", "yd", "chain")


_UNITS = {
    "m2": "m²", "km2": "km²", "sqmi": "sq mi", "sqft": "sq ft", "sqkm": "km²", "m3": "m³", "km3": "km³", "C": "°C",
    "F": "°F", "K": "K", "C-change": "°C", "F-change": "°F", "mph": "mph", "km/h": "km/h", "cuft": "cu ft", "usgal": "US gal",
    "acre": "acres", "/km2": "/km²", "PD/km2": "/km²", "PD/sqmi": "/sq mi", "cm2": "cm²", "cm3": "cm³", "mile": "miles",
    "foot": "feet", "inch": "inches", "nmi": "nautical miles", "ST": "short tons", "LT": "long tons", "t": "tonnes",
    "e6acre": "million acres", "e6ha": "million hectares", "e3km2": "thousand km²", "kPa": "kPa", "psi": "psi", "metre": "metres",
}  # fmt: skip


def _list(positional: list[str], named: dict[str, str]) -> str:
    return html_list([item for item in positional if item])


def _plain_list(positional: list[str], named: dict[str, str]) -> str:
    """{{plainlist|\\n* a\\n* b}}: its argument is itself a list."""
    text = positional[0] if positional else ""
    items = [line.lstrip("*#: ").strip() for line in text.split("\n")]
    return html_list([item for item in items if item])


def html_list(items: list[str]) -> str:
    """A list without bullets; a single item stays text."""
    if len(items) < 2:
        return items[0] if items else ""
    return '<ul class="plainlist">' + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def _dotted(positional: list[str], named: dict[str, str]) -> str:
    """{{hlist}}, {{flatlist}}: items in one line."""
    items = [line.lstrip("*").strip() for value in positional for line in value.split("\n")]
    return " · ".join(item for item in items if item)


def _nihongo(positional: list[str], named: dict[str, str]) -> str:
    english, kanji, romaji = (positional + ["", "", ""])[:3]
    inner = ", ".join(part for part in (kanji, f"''{romaji}''" if romaji else "") if part)
    return f"{english} ({inner})" if english and inner else english or inner


def _quote(positional: list[str], named: dict[str, str]) -> str:
    text = _first(positional, named) or named.get("text", "") or named.get("quote", "")
    source = (positional[1] if len(positional) > 1 else "") or named.get("author", "") or named.get("sign", "")
    return f"\n<blockquote>\n{text}\n{f'{chr(10)}— {source}{chr(10)}' if source else ''}</blockquote>\n" if text else ""


def _chemistry(positional: list[str], named: dict[str, str]) -> str:
    """{{chem|H|2|O}}: numbers are subscripts, charges superscripts."""
    parts = []
    for part in positional:
        charge = re.fullmatch(r"\d*[+−-]", part)
        parts.append(f"<sup>{part}</sup>" if charge else f"<sub>{part}</sub>" if part.isdigit() else part)
    return "".join(parts)


def _value(positional: list[str], named: dict[str, str]) -> str:
    number = _first(positional, named)
    if len(positional) > 1 and positional[1]:
        number += f"±{positional[1]}" if not positional[1].startswith("(") else positional[1]
    power = f"×10<sup>{named['e']}</sup>" if named.get("e") else ""
    unit = named.get("u") or named.get("ul") or ""
    return number + power + (f"&nbsp;{unit}" if unit else "")


def _fraction(positional: list[str], named: dict[str, str]) -> str:
    if len(positional) == 3:
        return f"{positional[0]} {positional[1]}⁄{positional[2]}"
    return "⁄".join(positional if len(positional) > 1 else ["1", *positional])


def _as_of(positional: list[str], named: dict[str, str]) -> str:
    months = "January February March April May June July August September October November December".split()
    year, month = (positional + ["", ""])[:2]
    month = months[int(month) - 1] if month.isdigit() and 1 <= int(month) <= 12 else month
    lower = "as of" if named.get("lc") else "As of"
    return named.get("alt") or " ".join(part for part in (lower, month, year) if part)


def _hatnote(prefix: str) -> Handler:
    def handler(positional: list[str], named: dict[str, str]) -> str:
        titles = [title for title in positional if title]
        return f"\n: ''{prefix}: {', '.join(titles)}''\n" if titles else ""

    return handler


def _ship(prefix: str) -> Handler:
    return lambda positional, named: f"{prefix} ''{_first(positional, named)}''"


def _marriage(positional: list[str], named: dict[str, str]) -> str:
    spouse, start, end = (positional + ["", "", ""])[:3]
    years = "–".join(part for part in (start, end) if part)
    return f"{spouse} ({years})" if years else spouse


def _citation(positional: list[str], named: dict[str, str]) -> str:
    """A source in a reading list: author (year). Title. Publisher."""
    author = named.get("author") or ", ".join(
        part for part in (named.get("last") or named.get("last1"), named.get("first") or named.get("first1")) if part
    )
    date = named.get("year") or named.get("date")
    title = named.get("title", "")
    head = f"{author} ({date})" if author and date else author or (f"({date})" if date else "")
    place = named.get("publisher") or named.get("journal") or named.get("work") or named.get("newspaper")
    return ". ".join(
        part for part in (head, title if not title or "''" in title else f"''{title}''", place) if part
    ) + ("." if title else "")


def _link(positional: list[str], named: dict[str, str]) -> str:
    address = _first(positional, named) or named.get("url", "")
    return positional[1] if len(positional) > 1 else re.sub(r"^https?://(www\.)?|/$", "", address)


def _populations(positional: list[str], named: dict[str, str]) -> str:
    """{{historical populations|1900|12,000|1910|...}}, {{us census population|1900= 12000|...}} as a table."""
    pairs = list(zip(positional[::2], positional[1::2], strict=False))
    pairs += [(key, value) for key, value in named.items() if re.fullmatch(r"\d{4}", key)]
    rows = [f"<tr><td>{year}</td><td>{people}</td></tr>" for year, people in pairs if year[:4].isdigit() and people]
    caption = re.sub(r"<[^>]+>", "", named.get("title", "")) or "Historical population"
    head = f"<caption>{caption}</caption>\n<tr><th>Year</th><th>Population</th></tr>\n"
    return '\n<table class="wikitable">\n' + head + "\n".join(rows) + "\n</table>\n" if rows else ""


_FIRST = (
    "small smaller nowrap nobold noitalic big larger center longitem sc linktext vanchor angbr tooltip abbr flag flagu"
    " flagcountry bra usa visible anchor nobr nts number table sorting ipa unicode script polytonic nastaliq"
    " iw2 ill flaglink tag code mono keypress key music pow sup! url2 native name list"
).split()
HANDLERS: dict[str, Handler] = {name: _first for name in _FIRST} | {
    **DATES,
    **dict.fromkeys(("native name", "lang", "resize", "rtl-lang", "transl", "legend", "script/arabic", "font"), _last),
    **dict.fromkeys(("legend2", "font color", "color", "nihongo2"), _last),
    **dict.fromkeys(("convert", "cvt"), _convert),
    **dict.fromkeys(("ubl", "unbulleted list", "vunblist", "collapsible list", "ublist"), _list),
    **dict.fromkeys(("plainlist", "plain list"), _plain_list),
    **dict.fromkeys(("hlist", "flatlist", "flat list"), _dotted),
    **dict.fromkeys(("nihongo", "nihongo3"), _nihongo),
    **dict.fromkeys(("quote", "bquote", "cquote", "blockquote", "quotation", "quote box", "rquote"), _quote),
    **dict.fromkeys(("chem", "chem2"), _chemistry),
    **dict.fromkeys(("historical populations", "us census population"), _populations),
    **dict.fromkeys(("main", "main article"), _hatnote("Main article")),
    **dict.fromkeys(("see also", "see"), _hatnote("See also")),
    **dict.fromkeys(("further", "further information", "details"), _hatnote("Further information")),
    **dict.fromkeys(("frac", "fraction", "sfrac"), _fraction),
    **{name: _ship(name.upper()) for name in ("uss", "hms", "ss", "rms", "ms", "hmas")},
    "val": _value,
    "sup": lambda positional, named: f"<sup>{_first(positional, named)}</sup>",
    "sub": lambda positional, named: f"<sub>{_first(positional, named)}</sub>",
    "e": lambda positional, named: f"×10<sup>{_first(positional, named)}</sup>",
    "as of": _as_of,
    "flatlist": _dotted,
    "marriage": _marriage,
    "url": _link,
    "vr": lambda positional, named: "",
    "simplenuclide2": lambda positional, named: "-".join(positional[:2]),
    "simplenuclide": lambda positional, named: "-".join(positional[:2]),
    "nuclide2": lambda positional, named: "-".join(positional[:2]),
    "c.": lambda positional, named: " ".join(["c.", *positional[:1]]),
    "circa": lambda positional, named: " ".join(["c.", *positional[:1]]),
    "wikisource-inline": _second,
}
CHARACTERS = {
    "!": "|", "=": "=", "·": " · ", "•": " • ", "nbsp": "&nbsp;", "spaces": "&nbsp;", "ndash": "–", "mdash": "—",
    "snd": " – ", "snds": " – ", "spnd": " – ", "spaced ndash": " – ", "mdashb": "—", "'s": "'s", "'": "'", "' \"": "' \"",
    "thinsp": "&thinsp;", "pipe": "|", "-": "<br>", "break": "<br>", "extinct": "†", "dagger": "†", "en dash": "–",
}  # fmt: skip
