"""One answer in the whole corpus: other pages that hold it too, and statements that say otherwise."""

from collections.abc import Callable

import pytest

from tilewright.data_gen.grounded.corpus import CorpusText
from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.data_gen.records import Block, QAPair, Tile


def pair_of(tile: Tile, query: str, answer: str, source_type: str = "paragraph") -> QAPair:
    return QAPair("q", query, answer, (), tile.tile_id, tile.page_id, "", source_type, tile.title, "grounded/1")


@pytest.fixture
def tile(make_tile: Callable[..., Tile], make_block: Callable[..., Block]) -> Callable[..., Tile]:
    def build(title: str, *texts: str, row: int = 0) -> Tile:
        return make_tile(title, [make_block("paragraph", text) for text in texts], row=row)

    return build


def test_another_page_with_terms_and_answer_makes_a_query_ambiguous(tile: Callable[..., Tile]) -> None:
    own = tile("A1", "Olaf Brandt built the moss bridge in 1801.")
    query = "In which year did Olaf Brandt build the moss bridge?"
    scattered = tile("B1", "Olaf lived in 1801.", "A Brandt could build a moss bridge.")
    assert CorpusText([own, scattered]).other_pages_with(pair_of(own, query, "1801")) == [scattered.page_id]
    same_page = tile("A1", "Olaf Brandt built the moss bridge in 1801.", row=1)
    assert CorpusText([own, same_page]).other_pages_with(pair_of(own, query, "1801")) == []
    without_answer = tile("C1", "Olaf lived in 1802.", "A Brandt could build a moss bridge.")
    assert CorpusText([own, without_answer]).other_pages_with(pair_of(own, query, "1801")) == []
    without_term = tile("D1", "Olaf Brandt built a bridge in 1801.")
    assert CorpusText([own, without_term]).other_pages_with(pair_of(own, query, "1801")) == []


def test_terms_of_a_page_may_stand_on_different_tiles(tile: Callable[..., Tile]) -> None:
    own = tile("A1", "Olaf Brandt built the moss bridge in 1801.")
    parts = [tile("B1", "Olaf Brandt built it."), tile("B1", "A moss bridge of 1801.", row=1)]
    query = "In which year did Olaf Brandt build the moss bridge?"
    assert CorpusText([own, *parts]).other_pages_with(pair_of(own, query, "1801")) == [parts[0].page_id]


def test_contradictions_count_wherever_they_stand(tile: Callable[..., Tile]) -> None:
    judge = GroundedJudge()
    own = tile("A1", "The Moss Party won the election in 1997.")
    pair = pair_of(own, "The Moss Party won the election in which year?", "1997")
    assert not CorpusText([own]).contradicts(pair, judge)
    assert CorpusText([own, tile("A1", "The Moss Party won the election in 2013.", row=1)]).contradicts(pair, judge)
    assert CorpusText([own, tile("B1", "The Moss Party won the election in 2013.")]).contradicts(pair, judge)
    assert not CorpusText([own, tile("B1", "The Fern Party won the election in 2013.")]).contradicts(pair, judge)
    both = tile("A1", "The Moss Party won the election in 1997.", "The Moss Party won an election in 2013.")
    assert CorpusText([both]).contradicts(pair, judge)


def test_cells_are_contradicted_by_cells_under_the_same_label_only(
    make_tile: Callable[..., Tile], make_block: Callable[..., Block]
) -> None:
    judge, columns = GroundedJudge(), ("Town", "Stadium", "City")
    row = make_block("table_row", cells=("Mossers", "Fern Stadium", "Harrow"), labels=columns)
    aside = make_block("paragraph", "The stadium of the Mossers in Norrland is old.")
    own = make_tile("Norrland", [row, aside])
    pair = pair_of(own, "With regard to Norrland, what is the stadium of Mossers?", "Fern Stadium", "table")
    assert not CorpusText([own]).contradicts(pair, judge)
    second = make_block("table_row", cells=("Mossers", "Old Ground", "Harrow"), labels=columns)
    assert CorpusText([make_tile("Norrland", [row, second])]).contradicts(pair, judge)
