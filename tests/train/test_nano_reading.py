"""Words from cells, and scores of readings, by hand and by a perfect reader."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.train.test_nano_data import characters

from tilewright.train.nano import CELLS, CLASSES, PATCH_PX, Reading
from tilewright.train.nano_characters import BLANK, class_of
from tilewright.train.nano_data import CELL_PX, label_cells
from tilewright.train.nano_reading import GAP_CELLS, ReadingScore, ReadPage, score_page, to_page

WORDS = st.text("abcXYZ019.,-", min_size=1, max_size=6)


def page(lines: list[str], starts: str = "") -> ReadPage:
    """A page of cells that read as ``lines``; blanks are blank cells, ``starts`` marks columns with ``^``."""
    width = CELLS * -(-max(map(len, lines)) // CELLS)
    classes = np.full((len(lines), width), BLANK)
    for row, line in enumerate(lines):
        for column, char in enumerate(line):
            classes[row, column] = BLANK if char == " " else class_of(ord(char))
    begins = np.zeros_like(classes, dtype=bool)
    for column, mark in enumerate(starts):
        begins[:, column] = mark == "^"
    return ReadPage(classes, begins)


def test_words_begin_at_marks_and_after_wide_gaps() -> None:
    gap = " " * GAP_CELLS
    read = page([f"to be{gap}or"], "^  ^")
    assert [word.text for word in read.words()] == ["to", "be", "or"]
    assert read.text() == "to be or"
    assert [word.text for word in page(["a b  c"]).words()] == ["abc"], "narrow gaps alone part nothing"


def test_rows_are_lines() -> None:
    read = page(["ab", "  ", "cd"], "^")
    assert read.text() == "ab\ncd"
    assert [(word.x_px, word.y_px) for word in read.words()] == [(2.0, 8.0), (2.0, 40.0)]


def perfect(text: str, rows: int = 1) -> tuple[ReadPage, ReadingScore]:
    found = characters(text)
    labels = label_cells(found, 0, 0, rows, 1 + len(text) // CELLS)
    read = ReadPage(labels.characters.reshape(rows, -1), (labels.starts == 1).reshape(rows, -1))
    return read, score_page(read, found)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=5))
def test_a_perfect_reader_scores_all(words: list[str]) -> None:
    text = " ".join(words)
    read, score = perfect(text)
    assert score.characters == score.cells_right == score.characters_right == score.read == len(text.replace(" ", ""))
    assert score.words == score.words_right == len(words)
    assert set(score.figures().values()) == {1.0}
    assert read.text() == text


def test_a_reader_of_nothing_scores_nothing() -> None:
    empty = ReadPage(np.full((1, 8), BLANK), np.zeros((1, 8), dtype=bool))
    score = score_page(empty, characters("abc de"))
    assert (score.characters, score.words, score.read) == (5, 2, 0)
    assert set(score.figures().values()) == {0.0}


def test_what_is_made_up_costs_precision() -> None:
    score = score_page(page(["abcdxx"], "^"), characters("abcd"))
    assert score.characters_right == 4 and score.read == 6
    assert score.figures()["character_precision"] == pytest.approx(4 / 6)
    assert score.words_right == 0, "abcdxx isn't abcd"


def test_a_neighbouring_cell_counts_once() -> None:
    shifted = page([" abcd"], " ^")
    score = score_page(shifted, characters("abcd"))
    assert (score.cells_right, score.characters_right, score.words_right) == (0, 4, 1)
    doubled = score_page(page(["a"], "^"), characters("aa"))
    assert doubled.characters_right == 1, "one reading can't be two characters"


def test_words_must_stand_where_they_are_read() -> None:
    far = page(["    " * 5 + "ab"], " " * 20 + "^")
    assert score_page(far, characters("ab")).words_right == 0


def test_scores_add_up() -> None:
    one, other = perfect("ab c")[1], perfect("def")[1]
    both = one + other
    assert both.characters == one.characters + other.characters and both.words == 3


def test_cells_take_the_likeliest_class() -> None:
    logits = torch.zeros(1, 2, CELLS, CLASSES)
    for column, cell in product(range(2), range(CELLS)):
        logits[0, column, cell, column * CELLS + cell] = 1.0
    starts = torch.tensor([[[1.0, -1.0, -1.0, -1.0], [-1.0, -1.0, -1.0, 2.0]]])
    read = to_page(Reading(logits, logits, logits, starts))
    assert read.classes.tolist() == [list(range(8))]
    assert read.starts.tolist() == [[True, *[False] * 6, True]]
    assert CELL_PX * CELLS == PATCH_PX
