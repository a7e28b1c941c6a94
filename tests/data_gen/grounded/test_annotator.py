"""Questions made of tiles whose facts are known; and each must be answered by its own tile."""

import re
from collections.abc import Callable

import pytest

from tilewright.data_gen.annotator import RawPair, Skip
from tilewright.data_gen.grounded.annotator import GroundedAnnotator, named_in_full
from tilewright.data_gen.grounded.infobox_questions import is_readable
from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.data_gen.grounded.names import Wording
from tilewright.data_gen.grounded.pronouns import resolved
from tilewright.data_gen.grounded.sentence_questions import questions
from tilewright.data_gen.records import Block, Tile
from tilewright.data_gen.verdicts import Verdict


def pairs_of(tile: Tile, most: int = 100) -> list[RawPair]:
    found = GroundedAnnotator(most).generate(tile)
    assert not isinstance(found, Skip)
    return list(found.pairs)


def asked(sentence: str, subject: str = "Chronicle", around: str = "") -> dict[str, str]:
    """{query: answer} for one sentence; ``around`` shows which words are common and which are names."""
    wording = Wording.of(f"{around}\n{sentence}")
    return {fact.query: fact.answer for fact in questions(sentence, wording, subject)}


def test_known_tiles_give_the_known_facts(known_tiles: list[Tile]) -> None:
    facts = {(pair.source_type, pair.answer) for tile in known_tiles for pair in pairs_of(tile)}
    assert {
        ("infobox", "3 May 1801"),
        ("infobox", "Eastmarch, Norrland"),
        ("infobox", "University of Eastmarch"),
        ("infobox", "7"),
        ("table", "12,400"),
        ("table", "Ines Krol"),
        ("list", "1833"),
        ("list", "140 mm"),
        ("paragraph", "1824"),
        ("paragraph", "9 June 1830"),
        ("paragraph", "1,250"),
        ("paragraph", "1877"),
        ("paragraph", "62%"),
        ("paragraph", "Thomas Ode"),
    } <= facts


def test_every_pair_is_answered_by_its_own_tile(known_tiles: list[Tile]) -> None:
    judge = GroundedJudge()
    for tile in known_tiles:
        for pair in pairs_of(tile):
            assert pair.answer in tile.text and pair.source_span in tile.text
            assert pair.query.endswith("?") and pair.query[0].isupper() and "  " not in pair.query
            verdict = judge.judge(pair.query, (pair.answer, *pair.aliases), tile)
            assert verdict is Verdict.CORRECT, pair


def test_rows_name_label_row_and_subject(known_tiles: list[Tile]) -> None:
    for pair in pairs_of(known_tiles[2]):
        if pair.source_type == "table":
            assert "Norrland" in pair.query
            assert "Eastmarch" in pair.query or "Westhaven" in pair.query
            assert "population (1900)" in pair.query or "mayor" in pair.query
    born = [pair for pair in pairs_of(known_tiles[0]) if pair.answer == "3 May 1801"]
    assert len(born) == 1 and "born" in born[0].query and born[0].aliases == ("May 3, 1801",)


@pytest.mark.parametrize(
    ("sentence", "query", "answer"),
    [
        (
            "In 1824, Olaf Brandt described the silver fern of Harrow.",
            r"In which year did Olaf Brandt describe the silver fern of Harrow\?"
            r"|Olaf Brandt described the silver fern of Harrow in which year\?",
            "1824",
        ),
        (
            "The Harrow bridge was built of moss stone on 3 May 1801.",
            r"On which date was the Harrow bridge built of moss stone\?"
            r"|The Harrow bridge was built of moss stone on which date\?",
            "3 May 1801",
        ),
        ("The moss archive of Harrow keeps 1,250 letters, which Krol sorted.",
         r"The moss archive of Harrow keeps how many letters\?", "1,250"),
        ("About 62% of the forests of Harrow burnt in a great fire.",
         r"About what percentage of the forests of Harrow burnt in a great fire\?", "62%"),
        ("The moss archive of Harrow was sold by Olaf Brandt to a museum.",
         r"The moss archive of Harrow was sold by whom to a museum\?", "Olaf Brandt"),
        ("The oldest moss bridge of Harrow was built in London.",
         r"The oldest moss bridge of Harrow was built in which city\?", "London"),
        ("Three moss treaties were signed with the Treaty of Harrow.",
         r"Three moss treaties were signed with which treaty\?", "Treaty of Harrow"),
        ("Olaf Brandt painted the ceiling of the moss chapel of Harrow.",
         r"Who painted the ceiling of the moss chapel of Harrow\?", "Olaf Brandt"),
        ("Treaty of Ashford ended the long moss war between Harrow and Glenwick.",
         r"Which treaty ended the long moss war between Harrow and Glenwick\?", "Treaty of Ashford"),
        ("The cheese of Harrow, a hard moss cheese, is called Grimble.",
         r"The cheese of Harrow, a hard moss cheese, is called what\?", "Grimble"),
        ("Rosa Luxen, a moss painter of Harrow, died at the age of 76.",
         r"Rosa Luxen, a moss painter of Harrow, died at what age\?", "76"),
    ],
)  # fmt: skip
def test_forms_of_questions(sentence: str, query: str, answer: str) -> None:
    found = asked(sentence)
    assert any(re.fullmatch(query, text) and value == answer for text, value in found.items()), found


@pytest.mark.parametrize(
    "sentence",
    [
        "In 1956 Summer Olympics records fell in the town of Harrow.",  # a name goes on behind the year
        "The Apollo 11 astronauts visited the moss museum of Harrow.",  # a number inside a name
        "The tower of Harrow is between 50 and 80 metres high.",
        "Moss grew.",
        "Some moss monks of Harrow established an Albanian Communist Party in town.",
        "Most moss temples of Harrow are concentrated in southern Mobile County.",
        "The descent of Harrow began with a nominal 100 miles of moss.",
        "The null moss escape of Harrow is the character U+0030 letters.",
        "Note the moss tower of Harrow was longer than Olaf Brandt wanted.",
        "It is said that the town of Harrow was green and never large.",
    ],
)
def test_facts_that_are_none(sentence: str) -> None:
    assert asked(sentence) == {}


def test_inversion_is_not_tried_where_a_second_verb_follows() -> None:
    for query in asked("In 1824, Olaf Brandt described the silver fern and married Ines Krol of Harrow."):
        assert "did Olaf" not in query


def test_the_page_is_the_answer_of_its_definition() -> None:
    found = asked("The moss clock is a slow water clock that the monks of Harrow built.", subject="Moss clock")
    assert found["What is a slow water clock that the monks of Harrow built?"] == "moss clock"


def test_a_defined_concept_is_asked_for_but_never_a_pronoun() -> None:
    around = "Many kinds of fernery exist; people like it."
    found = asked("Fernery is a closed garden house in which the ferns of Harrow are grown.", around=around)
    assert found["What is a closed garden house in which the ferns of Harrow are grown?"] == "Fernery"
    assert asked("It is a closed garden house in which the ferns of Harrow grow.", around=around) == {}
    assert asked("There is a closed garden house in which the ferns of Harrow grow.", around=around) == {}


def test_leading_pronouns_become_the_subject_only_where_nobody_else_was_named() -> None:
    text = ["Mary Quillfeather was a botanist.", "She lived in Harrow.", "Olaf Brandt met her.", "He was a painter."]
    wording = Wording.of(" ".join(text))
    out = [new for _, new in resolved(text, "Mary Quillfeather", wording)]
    assert out == [text[0], "Mary Quillfeather lived in Harrow.", text[2], text[3]]
    thing = ["The moss clock is slow.", "It was invented in 1829.", "Monks used it.", "It is green."]
    out = [new for _, new in resolved(thing, "Moss clock", Wording.of(" ".join(thing)))]
    assert out == [thing[0], "Moss clock was invented in 1829.", thing[2], thing[3]]


def test_family_names_are_completed() -> None:
    assert named_in_full("When did Quillfeather die?", "Mary Quillfeather") == "When did Mary Quillfeather die?"
    assert named_in_full("Who met Mary Quillfeather?", "Mary Quillfeather") == "Who met Mary Quillfeather?"
    assert named_in_full("Who met Ada Quillfeather?", "Mary Quillfeather") == "Who met Ada Quillfeather?"
    assert named_in_full("Who saw the clock?", "Moss clock") == "Who saw the clock?"


@pytest.mark.parametrize(
    ("label", "readable"),
    [("Capital", True), ("Alma mater", True), ("Population density (per km²)", True), ("Largestcity", False),
     ("Highestelevus", False), ("Placeofburial", False), ("Tz1where", False), ("Nickname", True), ("", False)],
)  # fmt: skip
def test_labels_that_can_be_read_aloud(label: str, readable: bool) -> None:
    assert is_readable(label) is readable


def test_cells_that_are_no_answers(make_tile: Callable[..., Tile], make_block: Callable[..., Block]) -> None:
    rows = [
        ("Capital", "yes"),
        ("Anthem", "—"),
        ("Currency", "see below"),
        ("Religion", "Moss cult Fern cult"),
        ("Motto", ""),
    ]
    tile = make_tile("Norrland", [make_block("infobox_row", cells=row) for row in rows])
    assert GroundedAnnotator(10).generate(tile) == Skip("no_fact")


def test_rows_and_sentences_cut_by_the_tile_are_left_out(
    make_tile: Callable[..., Tile], make_block: Callable[..., Block]
) -> None:
    cut = make_block("infobox_row", cells=("Capital", "Eastm"), whole=False)
    text = "of Harrow met in 1801 in the hall. The moss society of Harrow met again in 1802. It was sold in 18"
    tile = make_tile("Norrland", [make_block("paragraph", text, whole=False), cut])
    assert {pair.answer for pair in pairs_of(tile)} == {"1802"}


def test_skips_and_cap(
    known_tiles: list[Tile], make_tile: Callable[..., Tile], make_block: Callable[..., Block]
) -> None:
    assert GroundedAnnotator(5).generate(make_tile("Picture", [], text=" \n")) == Skip("no_text")
    assert GroundedAnnotator(5).generate(make_tile("X", [make_block("paragraph", "Moss is green.")])) == Skip("no_fact")
    everything = pairs_of(known_tiles[0])
    assert pairs_of(known_tiles[0], most=3) == everything[:3]
    assert len({pair.source_type for pair in everything[:2]}) == 2  # types take turns


def test_annotator_is_named() -> None:
    assert GroundedAnnotator(1).name == "grounded/2"
