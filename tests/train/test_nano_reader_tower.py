"""The loss that teaches a nano reader's eyes: by closed form for a perfect reading, and where it sends gradients."""

import math

import numpy as np
import pytest
import torch
from tests.train.test_nano_reader import page, still, typed
from tests.train.test_nano_reading import SURE, logits_of

from tilewright.data_gen.records import ReaderExample
from tilewright.train.nano import CELLS, Reading
from tilewright.train.nano_characters import BLANK, class_of
from tilewright.train.nano_reader import LONGEST, SpanScorer, shown, spans_of
from tilewright.train.nano_reader_question import asked
from tilewright.train.nano_reader_tower import PIECE_COLUMNS, PIECE_ROWS, Piece, piece_loss, piece_of
from tilewright.train.nano_reader_training import Row
from tilewright.train.nano_reader_words import TileWords

LINES = [(20, 40, "Torvald has a mill"), (22, 40, "built by Mira Castellan"), (24, 40, "in 1902"), (60, 0, "Far away")]


def row_of(answer: str, question: str = "Who built the mill of Torvald?") -> Row:
    seen = shown(asked(question), [page([(3, 3, "Another tile")]), page(LINES)])
    example = ReaderExample("q", question, answer, ("a-0000-00", "b-0000-00"), 1, 4.0)
    return Row(example, seen, tuple(spans_of(answer, seen.lines)))


def reading_of_words(words: TileWords) -> Reading:
    """What a perfect reader gives for a piece's words."""
    shape = (words.size[0], words.size[1])
    classes, before, after = (np.full(shape, BLANK) for _ in range(3))
    starts = np.full(shape, -SURE)
    for text, row, end in zip(words.texts, words.rows, words.ends, strict=True):
        cells = words.cells[end - len(text) : end]
        named = [class_of(ord(character)) for character in text]
        classes[row, cells], starts[row, cells[0]] = named, SURE
        before[row, cells], after[row, cells] = [BLANK, *named[:-1]], [*named[1:], BLANK]
    parts = (logits_of(array.reshape(shape[0], -1, CELLS)) for array in (classes, before, after))
    return Reading(*parts, torch.from_numpy(starts).float().view(shape[0], -1, CELLS))


@pytest.fixture(scope="module")
def piece() -> Piece:
    found = piece_of(row_of("Mira Castellan"), still(SpanScorer(8)))
    assert found is not None
    return found


def test_a_piece_lies_around_the_answer_and_holds_whole_words(piece: Piece) -> None:
    assert piece.tile_id == "b-0000-00" and piece.compression == 4
    assert piece.top == 22 - PIECE_ROWS // 2 and 0 <= piece.left <= 40 // CELLS
    assert "Far" not in piece.page.lines.texts and "Castellan" in piece.page.lines.texts
    assert piece.page.words.size == (PIECE_ROWS, PIECE_COLUMNS * CELLS)
    assert [piece.page.lines.texts[span.start : span.stop] for span in piece.spans] == [("Mira", "Castellan")]


def test_an_answer_that_was_not_read_has_no_piece() -> None:
    assert piece_of(row_of("Ansel Brandt"), still(SpanScorer(8))) is None


def test_of_a_perfect_reading_the_loss_is_that_of_pointing(piece: Piece) -> None:
    loss = piece_loss(piece, reading_of_words(piece.page.words), still(SpanScorer(8)))
    size = len(piece.page)  # one block
    assert len(set(piece.page.lines.block)) == 1
    spans = sum(min(LONGEST, size - start) for start in range(size))
    assert loss.item() == pytest.approx(math.log(spans + 1), abs=1e-3)


def test_letters_read_badly_cost_and_get_gradients_where_they_stand(piece: Piece) -> None:
    reading = reading_of_words(piece.page.words)
    best = piece_loss(piece, reading, still(SpanScorer(8))).item()
    wanted = piece.letters[0]
    blurred = reading.characters.flatten(0, -2).clone()
    blurred[wanted.cells] = 0.0
    blurred = blurred.view(reading.characters.shape).requires_grad_()
    loss = piece_loss(piece, Reading(blurred, reading.before, reading.after, reading.starts), still(SpanScorer(8)))
    assert loss.item() > best + len("MiraCastellan")
    (gradient,) = torch.autograd.grad(loss, blurred)
    touched = gradient.flatten(0, -2).abs().sum(-1)
    assert (touched[wanted.cells] > 0.1).all()
    named = gradient.flatten(0, -2)[wanted.cells, [class_of(ord(letter)) for letter in "MiraCastellan"]]
    assert (named < 0).all()  # more of the right letter: less loss


def test_marks_and_gaps_of_an_answer_are_empty() -> None:
    found = piece_of(row_of("in 1902", "When was the mill built?"), still(SpanScorer(8)))
    assert found is not None
    letters = found.letters[0]
    assert len(letters.cells) == 6 and len(letters.empty) == letters.cells.max() - letters.cells.min() + 1 - 6
    assert not set(letters.cells.tolist()) & set(letters.empty.tolist())


def test_the_words_near_the_answer_get_gradients_from_the_question(piece: Piece) -> None:
    torch.manual_seed(0)
    scorer = SpanScorer(16).eval()
    reading = reading_of_words(piece.page.words)
    soft = (reading.characters / 5).requires_grad_()  # less sure
    loss = piece_loss(piece, Reading(soft, reading.before, reading.after, reading.starts), scorer)
    (gradient,) = torch.autograd.grad(loss, soft)
    mill = piece.page.words.texts.index("mill")
    end = piece.page.words.ends[mill]
    cells = piece.page.words.cells[end - 4 : end]
    assert (
        gradient.view(PIECE_ROWS, -1, gradient.shape[-1])[piece.page.words.rows[mill], cells].abs().sum(-1) > 0
    ).all()


def test_typed_words_are_as_wide_as_their_cells() -> None:
    words = typed(LINES)
    assert (words.right - words.left == [2 * (len(text) - 1) for text in words.texts]).all()
