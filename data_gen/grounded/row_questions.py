"""Questions from infobox pairs and table cells: the label, the row and the page's subject are named."""

import re
from collections.abc import Iterator

from tilewright.data_gen.grounded.choice import choose
from tilewright.data_gen.grounded.lexicon import MONTH, words
from tilewright.data_gen.grounded.sentence_questions import Asked
from tilewright.data_gen.records import Block

MAX_ANSWER_WORDS = 8
_YEAR = r"(?:1\d{3}|20\d\d)"
_DATE = re.compile(rf"(?:{MONTH}) \d{{1,2}}, {_YEAR}|\d{{1,2}} (?:{MONTH}) {_YEAR}|\d{{1,4}} BCE?\b|\b{_YEAR}\b")
_BEHIND_DATE = re.compile(r"^(?: \((?:aged?|age) [^)]*\))?,? (?P<place>[A-Z].*)$")
_TAIL = re.compile(r" \([^()]*\)$")
_LIST_SEAM = re.compile(r"[a-zà-þ)%] [A-ZÀ-Þ]")
_SMALL_WORDS = frozenset("of the and de la le von van der in for on to at el al".split())
_NOT_A_VALUE = re.compile(
    r"[\W_]*|yes|no|n/?a|none|negligible|unknown|capital|various|see .*|.*(?:https?://|www\.|\.(?:pdf|php|html)\b).*"
    r"|.*['’]{2}.*|\d+ ?px|[+✔✓xX]|.*[<>{}|=].*", re.I,
)  # fmt: skip
_NOT_A_LABEL = words(
    """iso glotto pixels flaglink seallink coatlink link id url wikisource website synonyms apsis other others taxon the of
    commander note title ref type active reserve deployed plays former formerly influenced influences code deficit
    result date name state year years rank size status team teams combatant frequency abbreviation openaccess history km us ranks sovereignty
    amount object subject standard component surface interplanetary docking retired"""
)
_RUN_TOGETHER = re.compile(
    r"[a-z]{2,}(?:area|areas|point|elev|pop|rank|house|party|seats?|lang|city|metro|county|anthem|water|abbreviation|prefix"
    r"|adjective|density|date|order|income|results?|titles|money|ranking|tournaments|pro|works|place|years|cast|name|after"
    r"|us|km|type|id|code|db|plus|subj|topic|access|president|link|where|year|type|ofyear|note|refname)|[a-z]{4,}of[a-z]{4,}"
)
_WHOLE_WORDS = words("workplaces birthplace professors nickname timezone venus genus status consensus population")
_KNOWN = {
    "born": ("When was {s} born?", "On which date was {s} born?"),
    "died": ("When did {s} die?", "On which date did {s} die?"),
    "founded": ("When was {s} founded?", "In which year was {s} founded?"),
    "formation": ("When was {s} formed?", "What is the date of the formation of {s}?"),
    "published": ("When was {s} published?", "On which date was {s} published?"),
    "released": ("When was {s} released?", "On which date was {s} released?"),
    "retired": ("When did {s} retire?", "On which date did {s} retire?"),
    "recognised": ("When was {s} recognised?",),
    "recognized": ("When was {s} recognized?",),
    "declared": ("When was {s} declared?",),
    "term start": ("On which date did the term of {s} start?", "What is the start of the term of {s}?"),
    "term end": ("On which date did the term of {s} end?", "What is the end of the term of {s}?"),
    "known for": ("What is {s} known for?",),
    "author": ("Who is the author of {s}?", "Who was the author of {s}?"),
    "writer": ("Who was the writer of {s}?", "Who is named as the writer of {s}?"),
    "director": ("Who was the director of {s}?", "Who is the director of {s}?"),
    "producer": ("Who was the producer of {s}?", "Who is the producer of {s}?"),
    "composer": ("Who was the composer of {s}?",),
    "illustrator": ("Who was the illustrator of {s}?",),
    "editor": ("Who is the editor of {s}?",),
    "creator": ("Who was the creator of {s}?",),
    "governor": ("Who is the governor of {s}?",),
    "lieutenant governor": ("Who is the lieutenant governor of {s}?",),
    "president": ("Who is the president of {s}?",),
    "prime minister": ("Who is the prime minister of {s}?",),
    "monarch": ("Who is the monarch of {s}?",),
    "premier": ("Who is the premier of {s}?",),
    "vice president": ("Who was the vice president of {s}?",),
    "predecessor": ("Who was the predecessor of {s}?",),
    "successor": ("Who was the successor of {s}?",),
    "doctoral advisor": ("Who was the doctoral advisor of {s}?", "Who was {s}'s doctoral advisor?"),
    "doctoral students": ("Who is named among the doctoral students of {s}?",),
    "spouse(s)": ("Who was the spouse of {s}?",),
    "resting place": ("What is the resting place of {s}?",),
    "alma mater": ("What is the alma mater of {s}?", "What was {s}'s alma mater?"),
}
_DATED = frozenset("born died founded formation published released retired recognised recognized declared".split()) | {
    "term start",
    "term end",
}
_PLACE = {
    "born": ("Where was {s} born?", "In which place was {s} born?"),
    "died": ("Where did {s} die?", "In which place did {s} die?"),
}
_GENERAL = (
    "What is the {l} of {s}?",
    "What is {s}'s {l}?",
    "Which {l} is given for {s}?",
    "For {s}, what is the {l}?",
)
_GENERAL_PLURAL = ("What are the {l} of {s}?", "Which {l} are given for {s}?", "For {s}, what are the {l}?")
_GENERAL_DATED = ("Which date is given for the {l} of {s}?", "In connection with {s}, which date is given for {l}?")
_GENERAL_ROLE = ("Who is named as the {l} of {s}?", "Who is given as {s}'s {l}?")
_ROLE = re.compile(
    r"\b(?:director|decorator|producer|author|writer|president|minister|governor|opponent|mayor|premier|editor|composer"
    r"|chairman|secretary|representative|leader|monarch|king|queen|coach|captain|champion|creator|founder|artist|speaker|viceroy"
    r"|advisor|predecessor|successor)(?:\(s\)|s)?\b", re.I,
)  # fmt: skip
_CELLS_OF_ROLE = (
    "Who is named as the {l} of {r}, in connection with {s}?",
    "With regard to {s}, who is given as the {l} for {r}?",
)
_CELLS = (
    "What is the {l} of {r}, in connection with {s}?",
    "In connection with {s}, what is the {l} of {r}?",
    "Which {l} is given for {r} with regard to {s}?",
    "With regard to {s}, what is the {l} for {r}?",
)
_CELLS_OF_YEAR = (
    "What was the {l} in {r}, in connection with {s}?",
    "With regard to {s}, what was the {l} in {r}?",
    "Which {l} is given for {r} in connection with {s}?",
)
_COUNTERS = re.compile(r"(?:№|no\.?|rank|pos|#|number|\+|)", re.I)


def infobox_questions(block: Block, subject: str) -> Iterator[Asked]:
    """Questions about one whole (label, value) pair of the infobox of the page called ``subject``."""
    if not block.whole or len(block.cells) != 2:
        return
    label, value = block.cells[0].strip().rstrip(":").lstrip("•- "), block.cells[1].strip()
    known = label.casefold()
    if known in _DATED:
        yield from _dated(known, value, subject)
        return
    answer = _TAIL.sub("", value)
    if not _is_answer(answer) or _is_list(answer) or not _is_label(label):
        return
    templates = _KNOWN.get(known) or _general(label, answer)
    query = choose(templates, f"{subject}:{label}:{value}").format(s=subject, l=lowered(label))
    yield Asked(query, answer, "infobox")


def _general(label: str, answer: str) -> tuple[str, ...]:
    """Templates for a label without its own: by what is asked for and its number."""
    if _DATE.fullmatch(answer):
        return _GENERAL_DATED
    if _ROLE.search(label):
        return _GENERAL_ROLE
    return _GENERAL_PLURAL if re.search(r"[^sui]s$", label) else _GENERAL


def _dated(label: str, value: str, subject: str) -> Iterator[Asked]:
    """When, and for births and deaths also where."""
    date = _DATE.search(value)
    if date is None:
        return
    key = f"{subject}:{label}:{value}"
    yield Asked(choose(_KNOWN[label], key).format(s=subject), date.group(), "infobox")
    place = _BEHIND_DATE.match(value[date.end() :])
    if place and label in _PLACE and _is_answer(place["place"]):
        yield Asked(choose(_PLACE[label], key).format(s=subject), place["place"], "infobox")


def table_questions(block: Block, subject: str, columns: int) -> Iterator[Asked]:
    """Questions about the cells of one table row that has column labels and a cell that names the row.

    ``columns``: of the whole table; a row that lacks more than one is a heading, or goes on in cells of other rows.
    """
    if not block.whole or not any(block.labels) or len(block.cells) < max(2, columns - 1):
        return
    named = next((i for i, cell in enumerate(block.cells) if _names_row(cell, block.labels[i])), None)
    if named is None:
        return
    row = _TAIL.sub("", block.cells[named].strip())
    for i, (cell, label) in enumerate(zip(block.cells, block.labels, strict=True)):
        cell, label = cell.strip(), label.strip().rstrip(":*")
        if i <= named or not _is_cell_label(label) or not _is_answer(cell) or cell == row:
            continue
        dated = re.fullmatch(r"(?:year|date|period|season)", block.labels[named].strip(), re.I)
        templates = _CELLS_OF_ROLE if _ROLE.search(label) else _CELLS_OF_YEAR if dated else _CELLS
        query = choose(templates, f"{subject}:{row}:{label}:{cell}").format(s=subject, l=lowered(label), r=row)
        yield Asked(query, cell, "table")


_SOURCES = re.compile(
    r"see also|external links?|references|further reading|notes|(?:selected )?bibliography|works cited|sources|footnotes"
    r"|citations|online|biographies|literature|general|.*(?:edition|read)s?", re.I,
)  # fmt: skip
_REFERRALS = frozenset({"main article", "main articles", "further information", "see also", "note", "notes", "source"})
_DATED_ITEM = re.compile(rf"(?P<item>[A-Z0-9\"“][^():]{{2,70}}?),? \((?P<answer>{_YEAR})(?:[,;][^()]*)?\)\.?")
_PAIR_ITEM = re.compile(r"(?P<item>[A-Z][^:;.,]{3,60}): (?P<answer>[^:;]{1,60}?)\.?")
_ITEMS = (
    "Which year is given for {i} in connection with {s} ({h})?",
    "In connection with {s} ({h}), which year is given for {i}?",
)
_PAIRS = (
    "What is given for {i} in connection with {s} ({h})?",
    "In connection with {s} ({h}), what is given for {i}?",
)


def list_questions(block: Block, subject: str) -> Iterator[Asked]:
    """The year of a dated item (*Nostalghia (1983)*), the value of a *label: value* item; the heading is named too."""
    if not block.section or _SOURCES.fullmatch(block.section) or block.section == subject:
        return
    dated, pair = _DATED_ITEM.fullmatch(block.text), _PAIR_ITEM.fullmatch(block.text)
    match, templates = (dated, _ITEMS) if dated else (pair, _PAIRS)
    if match is None or not _is_answer(match["answer"]) or not re.search(r"\d", match["answer"]):
        return
    if match["item"].casefold() in _REFERRALS:
        return
    query = choose(templates, f"{subject}:{block.text}").format(i=match["item"].strip(), s=subject, h=block.section)
    yield Asked(query, match["answer"], "list")


def _names_row(cell: str, label: str) -> bool:
    cell = cell.strip()
    if not cell or _COUNTERS.fullmatch(label.strip()) or _NOT_A_VALUE.fullmatch(cell) or len(cell.split()) > 7:
        return False
    if _is_list(cell) or cell.casefold() in ("north", "south", "east", "west", "total", "other", "others", "all"):
        return False
    return bool(re.search(r"[^\W\d_]{2}", cell)) or bool(re.fullmatch(rf"{_YEAR}(?:[-–/]\d{{2,4}})?", cell))


def _is_label(label: str) -> bool:
    """A label that can be read aloud: not run together from a template's parameter (``Highestelevus``)."""
    parts = label.split()
    if not 1 <= len(parts) <= 7 or _NOT_A_VALUE.fullmatch(label) or not label[0].isalpha():
        return False
    if label.casefold() in _KNOWN:
        return True
    plain = [word.casefold() for word in parts]
    run_together = any(_RUN_TOGETHER.fullmatch(word) and word not in _WHOLE_WORDS for word in plain)
    bad = plain[0] in _NOT_A_LABEL or plain[-1] in _NOT_A_LABEL - {"rank", "code", "date", "size", "type", "name"}
    return not run_together and not bad and not re.search(r"\d", label) and max(map(len, parts)) <= 15


def _is_cell_label(label: str) -> bool:
    vague = label.casefold() in (
        "type",
        "notes",
        "note",
        "name",
        "category",
        "title",
        "references",
        "source",
        "summary",
    )
    return (
        not vague
        and bool(re.search(r"[^\W\d_]{3}", label))
        and len(label.split()) <= 9
        and not _COUNTERS.fullmatch(label)
    )


def _is_answer(text: str) -> bool:
    return bool(text) and len(text.split()) <= MAX_ANSWER_WORDS and not _NOT_A_VALUE.fullmatch(text)


def _is_list(value: str) -> bool:
    """Whether several values seem to stand in one cell without a mark between them."""
    words = value.split()
    capitals = [word for word in words if word[:1].isupper()]
    too_many = len(capitals) > 4 and not _SMALL_WORDS & set(words) and "," not in value
    small = [match.group() for match in _LIST_SEAM.finditer(value)]
    if re.search(r"\) [A-Z]|\d [A-Z][a-z]+ \d", value):
        return True
    seams = re.findall(r"(?:^| )(\S+) [A-ZÀ-Þ]", value)
    suspicious = any(seam[-1:].islower() and seam[:1].islower() and seam not in _SMALL_WORDS for seam in seams)
    return too_many or "·" in value or value.count("(") > 1 or (bool(small) and suspicious)


def lowered(label: str) -> str:
    """A label inside a sentence: its first letter small unless it's a name or an abbreviation; ``(s)`` dropped."""
    label = label.replace("(s)", "")
    first, _, rest = label.partition(" ")
    is_plain = first[1:].islower() and not re.search(r"\b[A-Z][a-z]", rest)
    return label[0].lower() + label[1:] if is_plain else label
