"""The judge on planted cases: what answers a query elsewhere is found, what only looks like it isn't."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.data_gen.records import Block, Tile
from tilewright.data_gen.verdicts import Verdict

PEOPLE = ("Olaf Brandt", "Ines Krol", "Thomas Ode", "Mira Vance", "Jonas Pell", "Carla Rusk", "Egon Tarn", "Lena Moor")
TOWNS = ("Eastmarch", "Westhaven", "Stonebeck", "Ashford", "Larkspur", "Glenwick", "Dunmere", "Thornby")


@pytest.fixture(scope="module")
def sentence_tile(make_tile: Callable[..., Tile], make_block: Callable[..., Block]) -> Callable[..., Tile]:
    def build(*texts: str, title: str = "Chronicle", kind: str = "paragraph") -> Tile:
        return make_tile(title, [make_block(kind, text) for text in texts])

    return build


def case(i: int) -> tuple[str, str, str, str]:
    """(query, answer, person, town) of the i-th invented fact."""
    person, town, year = PEOPLE[i], TOWNS[i], str(1800 + 7 * i)
    return f"In which year did {person} found the moss library of {town}?", year, person, town


def planted_positives(i: int, tile: Callable[..., Tile]) -> list[Tile]:
    """Other tiles that answer the query: another order, inflections, a list item, a table row, an infobox pair."""
    _, year, person, town = case(i)
    return [
        tile(f"The moss library of {town}, which {person} founded in {year}, burnt down later."),
        tile("Nothing here.", f"In {year} the moss libraries of {town} were founded by {person}'s family."),
        tile(f"{year}: {person} founds a moss library in {town}", kind="list_item"),
    ]


def lookalikes(i: int, tile: Callable[..., Tile]) -> list[Tile]:
    """Tiles that hold the answer's string, or the query's terms, but not together in one statement."""
    _, year, person, town = case(i)
    other = PEOPLE[(i + 1) % len(PEOPLE)]
    return [
        tile(f"In {year} it rained in {town}."),
        tile(f"{person} founded the moss library of {town}.", f"It opened in {year}."),
        tile(f"{other} founded the moss library of {town} in {year}."),
        tile(f"{person} founded the moss library of {town} in {int(year) + 1}."),
        tile(f"{person} founded the fern library of {town} in {year}."),
        tile(f"{person} lived from {year} on. {person} founded the moss library of {town} as an old man."),
    ]


def test_precision_and_recall_on_planted_cases(sentence_tile: Callable[..., Tile]) -> None:
    judge = GroundedJudge()
    found = missed = wrong = 0
    for i in range(len(PEOPLE)):
        query, answer, _, _ = case(i)
        for tile in planted_positives(i, sentence_tile):
            correct = judge.judge(query, [answer], tile) is Verdict.CORRECT
            found, missed = found + correct, missed + (not correct)
        wrong += sum(judge.judge(query, [answer], tile) is Verdict.CORRECT for tile in lookalikes(i, sentence_tile))
    assert found / (found + missed) == 1.0
    assert found / (found + wrong) == 1.0


def test_wrong_and_cannot_answer_are_told_apart(sentence_tile: Callable[..., Tile]) -> None:
    judge = GroundedJudge()
    query, answer, person, town = case(0)
    contradicting = sentence_tile(f"{person} founded the moss library of {town} in 1066.")
    assert judge.judge(query, [answer], contradicting) is Verdict.WRONG
    assert judge.judge(query, [answer], sentence_tile("Nothing here.")) is Verdict.CANNOT_ANSWER
    assert judge.judge(query, [answer], sentence_tile()) is Verdict.CANNOT_ANSWER
    assert judge.judge("Who was it?", ["Olaf"], sentence_tile("It was Olaf.")) is Verdict.CANNOT_ANSWER


def test_infobox_pair_wants_label_value_and_subject(known_tiles: list[Tile]) -> None:
    judge = GroundedJudge()
    tile = known_tiles[0]
    assert judge.judge("When was Mary Quillfeather born?", ["3 May 1801"], tile) is Verdict.CORRECT
    assert judge.judge("When was Mary Quillfeather born?", ["9 June 1830"], tile) is Verdict.WRONG
    assert judge.judge("When was Thomas Ode born?", ["3 May 1801"], tile) is Verdict.CANNOT_ANSWER
    assert judge.judge("What is the alma mater of Mary Quillfeather?", ["Eastmarch"], tile) is Verdict.CORRECT
    assert judge.judge("What is the alma mater of Mary Quillfeather?", ["alma mater"], tile) is Verdict.WRONG


def test_table_cell_wants_its_own_column_and_row(known_tiles: list[Tile]) -> None:
    judge, tile = GroundedJudge(), known_tiles[2]
    query = "With regard to Norrland, what is the population (1900) of Eastmarch?"
    assert judge.judge(query, ["12,400"], tile) is Verdict.CORRECT
    assert judge.judge(query, ["12400"], tile) is Verdict.CORRECT
    assert judge.judge(query, ["8,050"], tile) is Verdict.WRONG
    assert judge.judge(query, ["Olaf Brandt"], tile) is Verdict.WRONG  # the right row, another column
    assert judge.judge(query.replace("Norrland", "Sudrland"), ["12,400"], tile) is Verdict.CANNOT_ANSWER


def test_sentence_may_leave_out_given_name_or_use_a_pronoun_but_not_the_subject(known_tiles: list[Tile]) -> None:
    judge, tile = GroundedJudge(), known_tiles[0]
    fern = "In which year did Mary Quillfeather describe the silver fern of the Harrow Islands?"
    assert judge.judge(fern, ["1824"], tile) is Verdict.CORRECT
    moss = "Mary Quillfeather's garden held how many species of moss?"
    assert judge.judge(moss, ["1,250"], tile) is Verdict.CORRECT
    assert judge.judge(moss.replace("Mary Quillfeather", "Olaf Brandt"), ["1,250"], tile) is Verdict.CANNOT_ANSWER


def test_a_single_answer_string_and_aliases(sentence_tile: Callable[..., Tile]) -> None:
    judge, tile = GroundedJudge(), sentence_tile("The moss society of Dunmere had twelve members.")
    query = "The moss society of Dunmere had how many members?"
    assert judge.judge(query, "12", tile) is Verdict.CORRECT
    assert judge.judge(query, ["dozen", "twelve"], tile) is Verdict.CORRECT
    assert judge.judge(query, ["dozen"], tile) is Verdict.WRONG


def test_tile_without_blocks_is_read_by_lines(make_tile: Callable[..., Tile]) -> None:
    tile = make_tile("Chronicle", [], text="Heading\nOlaf Brandt built a bridge in 1801. It fell in 1802.")
    judge = GroundedJudge()
    assert judge.judge("In which year did Olaf Brandt build a bridge?", ["1801"], tile) is Verdict.CORRECT
    assert judge.judge("In which year did Olaf Brandt build a bridge?", ["1802"], tile) is Verdict.WRONG


def test_a_replaced_tile_is_judged_anew(sentence_tile: Callable[..., Tile]) -> None:
    judge = GroundedJudge()
    query, answer, person, town = case(1)
    assert judge.judge(query, [answer], sentence_tile("Old text.")) is Verdict.CANNOT_ANSWER
    new = sentence_tile(f"{person} founded the moss library of {town} in {answer}.")
    assert judge.judge(query, [answer], new) is Verdict.CORRECT


@given(st.text(max_size=40), st.lists(st.text(max_size=10), max_size=3))
def test_any_query_and_answers_get_a_verdict(known_tiles: list[Tile], query: str, answers: list[str]) -> None:
    assert GroundedJudge().judge(query, answers, known_tiles[0]) is not Verdict.UNPARSED
