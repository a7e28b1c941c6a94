"""Questions from tables, lists and infoboxes: what names a row, what is asked, and what isn't."""

import re
from collections.abc import Callable, Sequence

import pytest

from tilewright.data_gen.annotator import TWO_ANSWERS, Generated, Skip
from tilewright.data_gen.grounded.annotator import GroundedAnnotator
from tilewright.data_gen.grounded.terms import bare_title
from tilewright.data_gen.grounded.values import is_answer, lowered, without_footnotes
from tilewright.data_gen.records import Block, Tile

Rows = Sequence[Sequence[str]]


@pytest.fixture
def ask(make_tile: Callable[..., Tile], make_block: Callable[..., Block]) -> Callable[..., dict[str, str]]:
    """ask(title, rows): {query: answer} of one table whose first row are its labels (labelled=False: it has none)."""

    def of_table(title: str, rows: Rows, *, labelled: bool = True, around: str = "") -> dict[str, str]:
        blocks = [make_block("paragraph", around)] if around else []
        labels = rows[0]
        for row in rows[1:] if labelled else rows:
            above = labels[len(labels) - len(row) :] if labelled else ("",) * len(row)
            blocks.append(make_block("table_row", cells=row, labels=tuple(above), section="Facts"))
        found = GroundedAnnotator(100).generate(make_tile(title, blocks))
        return {} if isinstance(found, Skip) else {pair.query: pair.answer for pair in found.pairs}

    return of_table


def asked_of(found: dict[str, str], *wanted: str) -> set[str]:
    """Answers of the queries that hold all of ``wanted``."""
    return {answer for query, answer in found.items() if all(word in query for word in wanted)}


def test_rows_of_one_name_are_not_asked_for(ask: Callable[..., dict[str, str]]) -> None:
    found = ask("Norrland", [("Town", "Fair"), ("Harrow", "May"), ("Ashford", "June"), ("Harrow", "July")])
    assert set(found.values()) == {"June"}


def test_what_is_dropped_for_two_answers_is_counted(
    make_tile: Callable[..., Tile], make_block: Callable[..., Block]
) -> None:
    labels = ("Town", "Fair")
    rows = [make_block("table_row", cells=("Harrow", month), labels=labels) for month in ("May", "July", "May")]
    found = GroundedAnnotator(10).generate(make_tile("Norrland", rows))
    assert found == Skip("no_fact", {TWO_ANSWERS: 3})
    same = GroundedAnnotator(10).generate(make_tile("Norrland", [rows[0], rows[2]]))
    assert isinstance(same, Generated) and [pair.answer for pair in same.pairs] == ["May"]


def test_a_row_whose_name_reaches_over_others_is_not_asked_for(ask: Callable[..., dict[str, str]]) -> None:
    rows = [("Type", "Size", "Sign"), ("integral", "16 bits", "signed"), ("32 bits", "unsigned")]
    assert not asked_of(ask("Widths", rows), "integral")
    assert asked_of(ask("Widths", rows[:2]), "integral", "size") == {"16 bits"}


def test_a_film_is_asked_for_its_people_not_they_for_it(ask: Callable[..., dict[str, str]]) -> None:
    rows = [
        ("Art director(s)", "Set decorator(s)", "Film"),
        ("Olaf Brandt Ines Krol", "Rosa Luxen", "Moss Hall"),
        ("Thomas Ode", "N/A (withdrawn)", "The Fern"),
        ("black-and-white", "Ada Harrow", "Clocks"),
    ]
    found = ask("Moss Award", rows)
    assert asked_of(found, "set decorator", "Moss Hall", "Who ") == {"Rosa Luxen"}
    assert asked_of(found, "art director", "The Fern", "Who ") == {"Thomas Ode"}
    assert asked_of(found, "Clocks") == {"Ada Harrow"} and len(found) == 3


def test_properties_in_rows_are_asked_of_the_columns(ask: Callable[..., dict[str, str]]) -> None:
    rows = [("Property", "Lithium", "Sodium"), ("Atomic number", "3", "11")]
    found = ask("Alkali metal", rows)
    assert asked_of(found, "atomic number", "Lithium") == {"3"} and asked_of(found, "Sodium") == {"11"}
    assert not any("lithium of" in query or "Lithium of" in query for query in found)


def test_rows_that_nothing_names_in_a_question_give_none(ask: Callable[..., dict[str, str]]) -> None:
    rows = [("Flag", "Meaning", "Kind"), ("d i", "turns a signed integer into decimals", "signed char")]
    assert ask("printf", rows) == {}
    assert ask("Fern", [("", "1990", "2000"), ("moss share", "3 kg", "4 kg")]) == {}


def test_values_of_a_table_without_labels(ask: Callable[..., dict[str, str]]) -> None:
    rows = [("Weight", "3.2 kg"), ("Operating temperature", "0 to 40 °C"), ("Anna", "Rosa"), ("Type", "B 7")]
    found = ask("Moss clock", rows, labelled=False)
    assert asked_of(found, "weight", "Moss clock") == {"3.2 kg"}
    assert asked_of(found, "operating temperature") == {"0 to 40 °C"} and len(found) == 2
    assert ask("Moss clock", [("Weight", "3.2 kg", "x")], labelled=False) == {}


def test_numbers_of_plural_labels_are_counted(ask: Callable[..., dict[str, str]]) -> None:
    found = ask("Norrland", [("Town", "Bridges", "Fairs"), ("Harrow", "1,250", "May and June")])
    many = [query for query, answer in found.items() if answer == "1,250"]
    assert len(many) == 1 and many[0].startswith("How many bridges ")
    assert all(" are " in query for query, answer in found.items() if answer == "May and June")


def test_titles_lose_their_site() -> None:
    assert bare_title("Profiles - The Cargo Book") == "Profiles"
    assert bare_title("vector | Reference | Docs") == "vector | Reference"
    assert bare_title("Mercury (planet)") == "Mercury" and bare_title("Spider-Man") == "Spider-Man"
    assert bare_title("Harrow – A Moss Town") == "Harrow – A Moss Town"
    assert bare_title("Overview - Moss Tools") == "Overview - Moss Tools"


def test_labels_keep_the_capitals_of_names() -> None:
    common = frozenset(("height",))
    assert lowered("Height", common) == "height" and lowered("Population", common) == "population"
    assert lowered("Coptic", common) == "Coptic" and lowered("Clang", common) == "Clang"
    assert lowered("Art director(s)", common) == "art director" and lowered("Coptic") == "coptic"


@pytest.mark.parametrize(
    ("cell", "value"),
    [("19.0*", "19.0"), ("127[note 1]", "127"), ("4 [a][b]", "4"), ("*lis", "*lis"), ("7†‡", "7"), ("*", "*")],
)
def test_footnotes_are_no_part_of_a_value(cell: str, value: str) -> None:
    assert without_footnotes(cell) == value


@pytest.mark.parametrize("cell", ["See: Moss cults", "List of mosses", "? 180", "?", "N/A (withdrawn)", "TBD"])
def test_cells_that_say_nothing(cell: str) -> None:
    assert not is_answer(cell)


@pytest.mark.parametrize(
    ("row", "query"),
    [
        (("Architects", "Thomas Ode"), r"Who (?:were|are named as) the architects of Harrow\?"),
        (("Bridges", "12"), r"How many bridges (?:does Harrow have|are given for Harrow)\?"),
        (("Largest town", "Eastmarch 212,038"), r".*largest town.*"),
    ],
)
def test_infobox_forms(
    make_tile: Callable[..., Tile], make_block: Callable[..., Block], row: tuple[str, str], query: str
) -> None:
    found = GroundedAnnotator(10).generate(make_tile("Harrow", [make_block("infobox_row", cells=row)]))
    assert isinstance(found, Generated)
    (pair,) = found.pairs
    assert re.fullmatch(query, pair.query) and pair.answer == row[1].removesuffix(" 212,038")


@pytest.mark.parametrize(
    "row",
    [
        ("Next", "The Fern"),
        ("Recovery by", "USS Moss"),
        ("Gene reviews", "Moss overview"),
        ("Representative", "6 Moss"),
    ],
)
def test_infobox_rows_that_are_not_asked_for(
    make_tile: Callable[..., Tile], make_block: Callable[..., Block], row: tuple[str, str]
) -> None:
    tile = make_tile("Harrow", [make_block("infobox_row", cells=row)])
    assert GroundedAnnotator(10).generate(tile) == Skip("no_fact")
