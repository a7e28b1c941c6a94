"""Questions from table cells and list items: row or item, column or heading and the page's subject are named."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.data_gen.grounded.asked import Asked
from tilewright.data_gen.grounded.choice import choose
from tilewright.data_gen.grounded.lexicon import words
from tilewright.data_gen.grounded.names import GIVEN_NAMES
from tilewright.data_gen.grounded.values import (
    ROLE,
    YEAR,
    is_answer,
    is_list,
    is_plural,
    lowered,
    may_be_person,
    names_several,
    without_brackets,
    without_footnotes,
)
from tilewright.data_gen.records import Block

_CELLS = ("What is the {l} of {r} ({s})?", "For {r} ({s}), what is the {l}?", "Which {l} is given for {r} ({s})?")
_PLURAL_CELLS = ("What are the {l} of {r} ({s})?", "Which {l} are given for {r} ({s})?")
_COUNTED_CELLS = ("How many {l} does {r} have ({s})?", "How many {l} are given for {r} ({s})?")
_CELLS_OF_ROLE = ("Who is named as the {l} of {r} ({s})?", "Who is given as the {l} for {r} ({s})?")
_CELLS_OF_ROLES = ("Who are named as the {l} of {r} ({s})?",)
_CELLS_OF_YEAR = ("What was the {l} in {r} ({s})?", "Which {l} is given for {r} ({s})?")
_VALUES = ("What is the {l} of {s}?", "For {s}, what is the {l}?", "Which {l} is given for {s}?")
_COUNTERS = re.compile(r"(?:№|no\.?|rank|pos|#|number|\+|)", re.I)
_TIMES = re.compile(r"(?:year|date|period|season)", re.I)
_CODE = re.compile(r"[<>{}|=;$#@\\]|\.\.\.|\*\w|&\w")
_WORKS = re.compile(r"film|movie|book|novel|album|song|single|work|play|episode|game|programme|show|painting", re.I)
_PROPERTIES = re.compile(
    r"names?|propert(?:y|ies)|attributes?|parameters?|characteristics?|quantity|specifications?|specs?", re.I
)  # of the columns, not of the rows
_PLAIN_LABEL = re.compile(r"[A-Z]?[a-z][a-z-]+(?: (?:[a-z/-]+|\([\w/°%² -]+\)))*")
_OWN_NAME = re.compile(r"[A-ZÀ-Þ][\w'’.-]+(?: (?:of|the|de|and|[A-ZÀ-Þ0-9][\w'’.-]*))+")
_VAGUE_LABELS = words(
    """type notes note name category title references source summary explanation description details remarks remark
    comment comments"""
)
_VAGUE_ROWS = words("north south east west total other others all")

_DATED_ITEM = re.compile(rf"(?P<item>[A-Z\"“][^():]{{2,70}}?),? \((?P<answer>{YEAR})(?:[,;][^()]*)?\)\.?")
_PAIR_ITEM = re.compile(r"(?P<item>[A-Z][^:;.,]{3,60}): (?P<answer>[^:;]{1,60}?)\.?")
_ITEMS = ("What year is {i} from ({s}, {h})?", "From which year is {i} ({s}, {h})?")
_PAIRS = ("What is given for {i} under {h} ({s})?", "What is given for {i} ({s}, {h})?")
_SOURCES = re.compile(
    r"see also|external links?|references|further reading|notes|(?:selected )?bibliography|works cited|sources"
    r"|footnotes|citations|online|biographies|literature|general|.*(?:edition|read)s?", re.I,
)  # fmt: skip
_REFERRALS = frozenset({"main article", "main articles", "further information", "see also", "note", "source"})


@dataclass(frozen=True)
class TableShape:
    """What other rows say of a row's table. ``columns``: the most cells that a row has; a row that lacks more than one
    is a heading, or goes on in cells of other rows. ``labelled``: whether columns have labels. ``spans``: the next row
    lacks the first cell, so that this row's reaches over it."""

    columns: int
    labelled: bool
    spans: bool


def table_questions(
    block: Block, subject: str, shape: TableShape, common: frozenset[str], *, by_name_alone: bool = False
) -> Iterator[Asked]:
    """Questions about the cells of one whole table row: by column label and the cell that names the row, or by the
    first of two cells in a table without labels. ``common``: words that the text around writes small.

    ``by_name_alone``: leave the subject out where the row has a name of its own (*Gillette Stadium*)."""
    if not block.whole:
        return
    if not shape.labelled:
        yield from _value_questions(block, subject, shape)
        return
    if not any(block.labels) or len(block.cells) < max(2, shape.columns - 1):
        return
    labels = [label.strip().rstrip(":*? ") for label in block.labels]
    named = _naming_cell(block, labels)
    if named is None or (named == 0 and shape.spans):
        return
    row = without_brackets(without_footnotes(block.cells[named].strip()))
    transposed = named == 0 and _PROPERTIES.fullmatch(labels[0]) is not None and _PLAIN_LABEL.fullmatch(row) is not None
    for position, (cell, label) in enumerate(zip(block.cells, labels, strict=True)):
        answer = without_footnotes(cell.strip())
        if position == named or answer == row or not _can_be_asked(label, labels[named], answer):
            continue
        column, name = (block.cells[0].strip(), label) if transposed else (label, row)
        templates = _cell_templates(column, answer, of_time=_TIMES.fullmatch(labels[named]) is not None)
        query = choose(templates, f"{subject}:{name}:{column}:{answer}")
        if by_name_alone and _OWN_NAME.fullmatch(name):
            query = query.replace(" ({s})", "")
        text = _filled(query, s=subject, l=lowered(column, common), r=name)
        yield Asked(text, answer, "table", f"{name}\n{column}".casefold())


def _can_be_asked(label: str, named: str, answer: str) -> bool:
    """Whether a column and its cell make a question; ``named``: label of the column that names rows."""
    if not _names_column(label) or not is_answer(answer) or is_list(answer):
        return False
    parallel = " " in label and " " in named and label.split()[0] == named.split()[0]  # ranks in AFC East, AFC West
    return not parallel and not (ROLE.search(label) and not (may_be_person(answer) and " " in answer))


def _naming_cell(block: Block, labels: list[str]) -> int | None:
    """Position of the cell that tells its row from others: the first that isn't a rank or code; but of a film and the
    people who made it, the film."""
    for position, (cell, label) in enumerate(zip(block.cells, labels, strict=True)):
        if _names_row(cell.strip(), label):
            works = [i for i, other in enumerate(labels) if _WORKS.fullmatch(other) and is_answer(block.cells[i])]
            return works[0] if works and ROLE.search(label) else position
        if not label and re.search(r"[^\W\d_]{2}", cell):
            return None  # rows and columns may both be what is told of the other
        if len(cell.split()) > 2 and not (ROLE.search(label) and any(map(_WORKS.fullmatch, labels))):
            return None  # what it names can't be said in a question
    return None


def _names_row(cell: str, label: str) -> bool:
    """Whether a cell tells its row from others: words or a year, not a rank, a vague word or several values."""
    if not is_answer(cell) or _COUNTERS.fullmatch(label) or _CODE.search(cell):
        return False
    if is_list(cell) or cell.casefold() in _VAGUE_ROWS or (ROLE.search(label) and names_several(cell)):
        return False
    if cell[:1].islower() and len(cell.split()) > 3:
        return False  # a description
    is_time = re.fullmatch(rf"{YEAR}(?:[-–/]\d{{2,4}})?", cell) is not None
    return is_time or re.search(r"[^\W\d_]{2}", cell) is not None


def _cell_templates(label: str, answer: str, *, of_time: bool) -> tuple[str, ...]:
    if ROLE.search(label):
        return _CELLS_OF_ROLES if is_plural(label) else _CELLS_OF_ROLE
    if is_plural(label):
        return _COUNTED_CELLS if re.fullmatch(r"\d{1,3}(?:,\d{3})*|\d+", answer) else _PLURAL_CELLS
    return _CELLS_OF_YEAR if of_time else _CELLS


def _filled(template: str, **values: str) -> str:
    """The question; what stands in brackets follows a comma where it has brackets of its own."""
    if any(mark in values["s"] + values.get("h", "") + values.get("r", "") for mark in "()"):
        template = re.sub(r" \(([^()]*)\)(?=,)", r", in connection with \1", template)
        template = re.sub(r" \(([^()]*)\)", r", in connection with \1", template)
    return template.format(**values)


def _value_questions(block: Block, subject: str, shape: TableShape) -> Iterator[Asked]:
    """The value of a row of a two-column table without labels, as of technical data: *Weight | 3 kg*."""
    if shape.columns != 2 or len(block.cells) != 2:
        return
    label, answer = block.cells[0].strip().rstrip(":*"), without_footnotes(block.cells[1].strip())
    says_value = re.search(r"\d", answer) is not None or len(label.split()) > 1 or block.cells[0].strip().endswith(":")
    if not (says_value and _PLAIN_LABEL.fullmatch(label) and label not in GIVEN_NAMES and is_answer(answer)):
        return
    if label.casefold() not in _VAGUE_LABELS and not is_list(answer) and not re.fullmatch(r"\d+", label):
        query = choose(_VALUES, f"{subject}:{label}:{answer}")
        yield Asked(query.format(s=subject, l=lowered(label)), answer, "table", label.casefold())


def _names_column(label: str) -> bool:
    if label.casefold() in _VAGUE_LABELS or _COUNTERS.fullmatch(label) or _CODE.search(label):
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
        query = _filled(template, i=item, s=subject, h=block.section)
        yield Asked(query, match["answer"], "list", f"{block.section}\n{item}".casefold())
