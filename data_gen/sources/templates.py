"""Renderings of MediaWiki templates that carry text: dates, units, languages, lists, quotations, citations.

``expand`` gives wikitext (with HTML where it is simpler), "" for templates that show nothing in the text, and None for
unknown ones, which the caller removes and counts.
"""

import re
from typing import Any, Protocol

from tilewright.data_gen.sources import template_text as text
from tilewright.data_gen.sources.template_dates import DATES
from tilewright.data_gen.sources.template_text import Handler
from tilewright.data_gen.sources.template_units import chemistry, convert, coordinates, fraction, value

ABSENT = "\ue000"  # stands for a value that can't be computed here; brackets around it go, too
_SILENT = re.compile(
    r"use .* (dates|english)|pp-.*|pp|good article|featured article|.* icon|flagicon.*|flagdeco|citation needed|cn"
    r"|when|clarify.*|who|which|page needed|dead link|failed verification|refimprove.*|unreferenced.*|expand.*"
    r"|multiple issues|more footnotes|reflist.*|refbegin|refend|sfn.*|rp|r|refn|efn.*|notelist.*|harvid|wayback"
    r"|webarchive|portal.*|authority control|commons.*|wiktionary.*|wikiquote.*|wikisource.*|wikibooks.*"
    r"|sister project.*|navboxes.*|clear.*|div col.*|col-.*|colbegin|colend|columns-list|toc.*|about.*"
    r"|other uses.*|for|for2|redirect.*|distinguish|hatnote|geographic location|ipac?-.*|respell|s-.*"
    r"|start box|end box|succession box|chart.*|clade.*|wide image|multiple images?|double image|map caption"
    r"|css image crop|dmoz|imdb.*|increase|decrease|steady|anchor|audio|vague|short description"
    r"|library resources box|speaker.*|gutenberg author|no ?more ?links|listen|bots|italic title|displaytitle.*"
    r"|defaultsort.*|disambiguation.*|by whom|where|dubious.*|better source|relevance inline|weasel.*"
    r"|unreliable source.*|original research.*|wikiatlas|wikipedia books|wikispecies|osmrelation-inline|lookfrom"
    r"|intitle|engvarb|internet archive author"
)
_UNCOMPUTED = re.compile(r"inflation.*|age.*|currentyear|currentmonthname|localyear|#.*|format price.*")
_COUNTRY_CODE = re.compile(r"[A-Z]{3}")  # {{NED}}: a flag and the country's name, of which we have the code
_MAX_POSITIONAL = 500


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
        if key.isdigit() and 0 < int(key) <= _MAX_POSITIONAL:
            positional[int(key)] = value
        else:
            named[key.lower()] = value
    return [positional.get(index, "") for index in range(1, max(positional, default=0) + 1)], named


def expand(name: str, node: Any, renderer: Renderer) -> str | None:
    """The text of a template, "" if it shows none, None if it isn't known."""
    if name.startswith(("formatnum:", "lc:", "uc:", "lcfirst:", "ucfirst:")):
        return renderer.render(str(node.name).partition(":")[2]).strip()
    handler = HANDLERS.get(name) or _by_prefix(name)
    if handler is not None:
        return handler(*arguments(node, renderer))
    if name in CHARACTERS:
        return CHARACTERS[name]
    if _COUNTRY_CODE.fullmatch(str(node.name).strip()):
        return str(node.name).strip()
    if _UNCOMPUTED.fullmatch(name):
        return ABSENT
    return "" if _SILENT.fullmatch(name) else None


def _by_prefix(name: str) -> Handler | None:
    if name.startswith("lang-"):
        return text.language_of(name)
    if name.startswith("cite ") or name in ("citation", "vcite book"):
        return text.citation
    return None


_FIRST = (
    "small", "smaller", "nowrap", "nobold", "noitalic", "big", "larger", "large", "center", "longitem", "sc",
    "linktext", "vanchor", "angbr", "tooltip", "abbr", "flag", "flagu", "flagcountry", "visible anchor", "nobr",
    "nts", "midsize", "number table sorting", "ipa", "unicode", "script", "polytonic", "nastaliq", "nq", "tag",
    "code", "mono", "keypress", "key", "music", "pow", "url2", "nihongo core", "railgauge", "army", "navy", "pslink",
    "vol.", "p.",
)  # fmt: skip
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_FIRST, text.first),
    **DATES,
    **dict.fromkeys(
        ("native name", "lang", "resize", "rtl-lang", "transl", "legend", "script/arabic", "font"), text.last
    ),
    **dict.fromkeys(("legend2", "font color", "color", "nihongo2"), text.last),
    **dict.fromkeys(("convert", "cvt"), convert),
    **dict.fromkeys(("ubl", "unbulleted list", "vunblist", "collapsible list", "ublist"), text.item_list),
    **dict.fromkeys(("plainlist", "plain list"), text.plain_list),
    **dict.fromkeys(("hlist", "flatlist", "flat list"), text.dotted),
    **dict.fromkeys(("nihongo", "nihongo3"), text.nihongo),
    **dict.fromkeys(("quote", "bquote", "cquote", "blockquote", "quotation", "quote box", "rquote"), text.quote),
    **dict.fromkeys(("chem", "chem2"), chemistry),
    **dict.fromkeys(("historical populations", "us census population"), text.populations),
    **dict.fromkeys(("main", "main article"), text.hatnote("Main article")),
    **dict.fromkeys(("see also", "see"), text.hatnote("See also")),
    **dict.fromkeys(("further", "further information", "details"), text.hatnote("Further information")),
    **dict.fromkeys(("frac", "fraction", "sfrac"), fraction),
    **{name: text.ship(name.upper()) for name in ("uss", "hms", "ss", "rms", "ms", "hmas")},
    "coord": coordinates,
    "val": value,
    "sup": lambda positional, named: f"<sup>{text.first(positional, named)}</sup>",
    "sub": lambda positional, named: f"<sub>{text.first(positional, named)}</sub>",
    "e": lambda positional, named: f"×10<sup>{text.first(positional, named)}</sup>",
    "as of": text.as_of,
    "flatlist": text.dotted,
    "bartable": lambda positional, named: "".join(positional[:2]),
    "marriage": text.marriage,
    "url": text.link,
    "vr": lambda positional, named: "",
    "simplenuclide2": lambda positional, named: "-".join(positional[:2]),
    "simplenuclide": lambda positional, named: "-".join(positional[:2]),
    "nuclide2": lambda positional, named: "-".join(positional[:2]),
    "c.": lambda positional, named: " ".join(["c.", *positional[:1]]),
    "circa": lambda positional, named: " ".join(["c.", *positional[:1]]),
    "wikisource-inline": text.second,
}
CHARACTERS = {
    "!": "|", "=": "=", "·": " · ", "•": " • ", "nbsp": "&nbsp;", "spaces": "&nbsp;", "ndash": "–", "mdash": "—",
    "snd": " – ", "snds": " – ", "spnd": " – ", "spaced ndash": " – ", "mdashb": "—",
    "'s": "'s",
    "'": "'",
    "' \"": "' \"", "thinsp": "&thinsp;", "pipe": "|", "-": "<br>", "break": "<br>", "extinct": "†", "dagger": "†",
    "en dash": "–",
}  # fmt: skip
