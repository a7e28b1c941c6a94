"""Questions from table cells and list items: row or item, column or heading and the page's subject are named."""

import re
from collections.abc import Iterator

from tilewright.data_gen.grounded.asked import Asked
from tilewright.data_gen.grounded.choice import choose
from tilewright.data_gen.grounded.lexicon import words
from tilewright.data_gen.grounded.values import ROLE, YEAR, is_answer, is_list, lowered, without_brackets
from tilewright.data_gen.records import Block

_CELLS = (
    "What is the {l} of {r}, in connection with {s}?",
    "In connection with {s}, what is the {l} of {r}?",
    "Which {l} is given for {r} with regard to {s}?",
    "With regard to {s}, what is the {l} for {r}?",
)
_CELLS_OF_ROLE = (
    "Who is named as the {l} of {r}, in connection with {s}?",
    "With regard to {s}, who is given as the {l} for {r}?",
)
_CELLS_OF_YEAR = (
    "What was the {l} in {r}, in connection with {s}?",
    "With regard to {s}, what was the {l} in {r}?",
    "Which {l} is given for {r} in connection with {s}?",
)
_COUNTERS = re.compile(r"(?:№|no\.?|rank|pos|#|number|\+|)", re.I)
_TIMES = re.compile(r"(?:year|date|period|season)", re.I)
_VAGUE_LABELS = words("type notes note name category title references source summary")
_VAGUE_ROWS = words("north south east west total other others all")

_DATED_ITEM = re.compile(rf"(?P<item>[A-Z0-9\"“][^():]{{2,70}}?),? \((?P<answer>{YEAR})(?:[,;][^()]*)?\)\.?")
_PAIR_ITEM = re.compile(r"(?P<item>[A-Z][^:;.,]{3,60}): (?P<answer>[^:;]{1,60}?)\.?")
_ITEMS = (
    "Which year is given for {i} in connection with {s} ({h})?",
    "In connection with {s} ({h}), which year is given for {i}?",
)
_PAIRS = (
    "What is given for {i} in connection with {s} ({h})?",
    "In connection with {s} ({h}), what is given for {i}?",
)
_SOURCES = re.compile(
    r"see also|external links?|references|further reading|notes|(?:selected )?bibliography|works cited|sources"
    r"|footnotes|citations|online|biographies|literature|general|.*(?:edition|read)s?", re.I,
)  # fmt: skip
_REFERRALS = frozenset({"main article", "main articles", "further information", "see also", "note", "source"})


def table_questions(block: Block, subject: str, columns: int) -> Iterator[Asked]:
    """Questions about the cells of one table row that has column labels and a cell that names the row.

    ``columns``: of the whole table; a row that lacks more than one is a heading, or goes on in cells of other rows.
    """
    if not block.whole or not any(block.labels) or len(block.cells) < max(2, columns - 1):
        return
    named = next((i for i, cell in enumerate(block.cells) if _names_row(cell.strip(), block.labels[i].strip())), None)
    if named is None:
        return
    row = without_brackets(block.cells[named].strip())
    of_time = _TIMES.fullmatch(block.labels[named].strip()) is not None
    for cell, label in zip(block.cells[named + 1 :], block.labels[named + 1 :], strict=True):
        answer, label = cell.strip(), label.strip().rstrip(":*")
        if _names_column(label) and is_answer(answer) and answer != row:
            templates = _CELLS_OF_ROLE if ROLE.search(label) else _CELLS_OF_YEAR if of_time else _CELLS
            template = choose(templates, f"{subject}:{row}:{label}:{answer}")
            yield Asked(template.format(s=subject, l=lowered(label), r=row), answer, "table")


def _names_row(cell: str, label: str) -> bool:
    """Whether a cell tells its row from others: words or a year, not a rank, a vague word or several values."""
    if not is_answer(cell) or _COUNTERS.fullmatch(label) or is_list(cell) or cell.casefold() in _VAGUE_ROWS:
        return False
    return bool(re.search(r"[^\W\d_]{2}", cell) or re.fullmatch(rf"{YEAR}(?:[-–/]\d{{2,4}})?", cell))


def _names_column(label: str) -> bool:
    if label.casefold() in _VAGUE_LABELS or _COUNTERS.fullmatch(label):
        return False
    return bool(re.search(r"[^\W\d_]{3}", label)) and len(label.split()) <= 9


def list_questions(block: Block, subject: str) -> Iterator[Asked]:
    """The year of a dated item (*Nostalghia (1983)*), the number of a *label: value* item; the heading is named too."""
    if not block.whole or not block.section or _SOURCES.fullmatch(block.section) or block.section == subject:
        return
    dated = _DATED_ITEM.fullmatch(block.text)
    match = dated or _PAIR_ITEM.fullmatch(block.text)
    if match is None or not is_answer(match["answer"]) or not re.search(r"\d", match["answer"]):
        return
    item = match["item"].strip()
    if item.casefold() not in _REFERRALS:
        template = choose(_ITEMS if dated else _PAIRS, f"{subject}:{block.text}")
        yield Asked(template.format(i=item, s=subject, h=block.section), match["answer"], "list")
