"""Words from cells, and scores of readings, by hand and by a perfect reader."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.train.test_nano_data import characters
from torch import Tensor

from tilewright.train.nano import CELLS, Reading
from tilewright.train.nano_characters import BLANK, CLASSES, class_of
from tilewright.train.nano_data import label_cells
from tilewright.train.nano_decoding import ReadPage, decode
from tilewright.train.nano_neighbours import WIDEST_CELLS
from tilewright.train.nano_reading import ReadingScore, score_page

WORDS = st.text("abcXYZ019.,-", min_size=1, max_size=6)
SURE = 20.0


def logits_of(classes: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]", sureness: float = SURE) -> Tensor:
    """Logits that name ``classes`` [...] and nothing else."""
    wanted = torch.from_numpy(np.where(classes < 0, BLANK, classes))
    return sureness * torch.nn.functional.one_hot(wanted, CLASSES).float()


def reading_of(text: str, step_px: float = 4.0) -> Reading:
    """What a perfect reader gives for one line of ``text``, a character every ``step_px``."""
    found = characters(text, step_px=step_px)
    columns = 1 + int(len(text) * step_px) // 16
    labels = label_cells(found, 0, 0, 1, columns)
    starts = SURE * (2.0 * torch.from_numpy(labels.starts == 1).float() - 1)
    return Reading(logits_of(labels.characters), logits_of(labels.before), logits_of(labels.after), starts)


def with_cell(reading: Reading, column: int, character: str, before: str, after: str, sureness: float) -> Reading:
    """``reading`` with one more cell read, without being a start."""
    patch, cell = divmod(column, CELLS)
    parts, heads = [], (reading.characters, reading.before, reading.after)
    for logits, value in zip(heads, (character, before, after), strict=True):
        changed = logits.clone()
        changed[0, patch, cell] = 0
        changed[0, patch, cell, BLANK if value == " " else class_of(ord(value))] = sureness
        parts.append(changed)
    return Reading(*parts, reading.starts)


def texts(page: ReadPage) -> list[str]:
    return [word.text for word in page.words]


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=5))
def test_a_perfect_reader_scores_all(words: list[str]) -> None:
    text = " ".join(words)
    page = decode(reading_of(text))
    score = score_page(page, characters(text))
    assert score.characters == score.cells_right == score.characters_right == score.read == len(text.replace(" ", ""))
    assert score.words == score.words_right == len(words)
    assert set(score.figures().values()) == {1.0}
    assert page.text() == text and texts(page) == words


def test_a_word_ends_at_a_wide_gap_whatever_the_heads_say() -> None:
    near, far = (decode(reading_of("ab", step_px=4.0 * cells)) for cells in (WIDEST_CELLS, WIDEST_CELLS + 1))
    assert texts(near) == ["ab"] and texts(far) == ["a", "b"]


def test_what_two_cells_saw_is_one_character() -> None:
    doubled = with_cell(reading_of("cat"), 3, "t", "a", " ", SURE / 2)
    assert texts(decode(doubled)) == ["cat"]
    assert (decode(doubled).cells != BLANK).sum() == 4 and (decode(doubled).classes != BLANK).sum() == 3


def test_the_surer_of_two_cells_stays() -> None:
    doubled = with_cell(reading_of("a cat"), 5, "t", "a", " ", 2 * SURE)
    page = decode(doubled)
    assert texts(page) == ["a", "cat"] and page.classes[0, 5] != BLANK and page.classes[0, 4] == BLANK


def test_real_doubles_stay_two() -> None:
    for word in ("aa", "balloon", "Mississippi", "1100"):
        assert texts(decode(reading_of(word))) == [word]


def test_neighbours_outvote_a_doubtful_cell() -> None:
    """The cell is nearly even between O and a; both neighbours name an a."""
    doubtful = with_cell(reading_of("cat"), 1, "O", "c", "t", 2.0)
    doubtful.characters[0, 0, 1, class_of(ord("a"))] = 1.9
    assert texts(decode(doubtful)) == ["cat"]


def test_rows_are_lines() -> None:
    one, two = reading_of("ab"), reading_of("cd")
    empty = Reading(*(logits_of(np.full((1, 1, CELLS), BLANK)) for _ in range(3)), torch.full((1, 1, CELLS), -SURE))
    rows = [torch.cat(parts) for parts in zip(*(vars(part).values() for part in (one, empty, two)), strict=True)]
    page = decode(Reading(*rows))
    assert page.text() == "ab\ncd"
    assert [(word.x_px, word.y_px) for word in page.words] == [(2.0, 8.0), (2.0, 40.0)]


def test_a_blank_page_has_no_words() -> None:
    page = decode(Reading(*(logits_of(np.full((2, 3, CELLS), BLANK)) for _ in range(3)), torch.zeros(2, 3, CELLS)))
    assert page.words == () and page.text() == "" and (page.classes == BLANK).all()
    score = score_page(page, characters("abc de"))
    assert (score.characters, score.words, score.read) == (5, 2, 0)
    assert set(score.figures().values()) == {0.0}


def test_what_is_made_up_costs_precision() -> None:
    score = score_page(decode(reading_of("abcdxx")), characters("abcd"))
    assert score.characters_right == 4 and score.read == 6
    assert score.figures()["character_precision"] == pytest.approx(4 / 6)
    assert score.words_right == 0, "abcdxx isn't abcd"


def test_a_neighbouring_cell_counts_once() -> None:
    score = score_page(decode(reading_of(" abcd")), characters("abcd"))
    assert (score.cells_right, score.characters_right, score.words_right) == (0, 4, 1)
    doubled = score_page(decode(reading_of("a")), characters("aa"))
    assert doubled.characters_right == 1, "one reading can't be two characters"


def test_words_must_stand_where_they_are_read() -> None:
    shown = characters("ab" + " " * 30 + "c")
    assert score_page(decode(reading_of(" " * 20 + "ab" + " " * 10)), shown).words_right == 0
    assert score_page(decode(reading_of(" ab" + " " * 30)), shown).words_right == 1


def test_scores_add_up() -> None:
    one, other = (score_page(decode(reading_of(text)), characters(text)) for text in ("ab c", "def"))
    both = one + other
    assert both == ReadingScore(6, 6, 6, 6, 3, 3)
