"""A nano reader's parts on typed pages: reading order, resemblance, spans, losses by closed form, files."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.train.test_nano_reading import reading_of

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import ReaderExample
from tilewright.train.nano_characters import trigrams_of
from tilewright.train.nano_reader import (
    LONGEST,
    SpanScorer,
    allowed,
    answer_loss,
    best_span,
    shown,
    spans_of,
    text_of,
)
from tilewright.train.nano_reader_checkpoint import load_scorer, save_scorer
from tilewright.train.nano_reader_features import AROUND, FEATURES, Page, features, likeliest, page_of_words
from tilewright.train.nano_reader_layout import GAP_CELLS, layout_of
from tilewright.train.nano_reader_question import KINDS, asked
from tilewright.train.nano_reader_training import Row, Settings, copy_of, normalise, train_scorer
from tilewright.train.nano_reader_words import SCALE, TileWords, squashed, text_vectors, words_of

Typed = Sequence[tuple[int, int, str]]


def typed(lines: Typed) -> TileWords:
    """Perfectly read words: each line is (row of patches, cell that it begins in, text), a character every 2 cells."""
    texts, rows, cells = [], [], []
    for row, left, line in sorted(lines):
        column = left
        for word in line.split():
            texts.append(word)
            rows.append(row)
            cells += [column + 2 * place for place in range(len(word))]
            column += 2 * len(word) + 1
    vectors = (text_vectors(texts) * SCALE).round().clamp(-127, 127).to(torch.int8).numpy()
    sure = np.ones(len(texts), dtype=np.float32)
    return TileWords(tuple(texts), np.array(cells, dtype=np.int16), np.array(rows, np.int16), vectors, sure, (64, 220))


def page(lines: Typed) -> Page:
    return page_of_words(typed(lines))


PROSE = page([(1, 0, "The mill of Torvald was built"), (2, 0, "by Mira Castellan in 1902 after"), (3, 0, "a flood.")])
BOX = page([(1, 0, "Area 87 km"), (2, 0, "Mayor Ansel Brandt"), (5, 0, "Torvald (see map)")])


def test_words_of_a_perfect_reading_are_those_of_its_text() -> None:
    text = "Mira built 1902"
    words = words_of(reading_of(text))
    assert " ".join(words.texts) == text
    products = (torch.from_numpy(words.vectors).float() / SCALE) @ text_vectors(text.split()).T
    assert torch.allclose(products.diagonal(), torch.ones(3), atol=0.1)
    assert (products - torch.diag(products.diagonal())).abs().max() < 0.35  # chance, in 512 dimensions
    assert words.left.tolist() == [0, 5, 11] and words.right.tolist() == [3, 9, 14]


def test_a_word_that_was_read_badly_still_resembles_itself() -> None:
    vectors = text_vectors(["Castellan", "Castelian", "Brandt"])
    assert vectors[0] @ vectors[1] > 0.5 > 0.3 > vectors[0] @ vectors[2]


def test_a_paragraph_is_read_on_beside_a_box() -> None:
    words = typed([(1, 0, "one two"), (1, 100, "box top"), (2, 0, "three four"), (3, 100, "box low"), (4, 0, "five")])
    found = layout_of(words)
    assert " ".join(words.texts[place] for place in found.order) == "one two three four five box top box low"
    assert found.block.tolist() == [0] * 5 + [1] * 4


PLACED = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8).map(lambda n: 24 * n)), max_size=25, unique=True)


@settings(max_examples=50)
@given(PLACED)
def test_every_word_is_read_once_and_blocks_go_down(places: list[tuple[int, int]]) -> None:
    words = typed([(row, left, f"w{row} x") for row, left in places])
    found = layout_of(words)
    assert sorted(found.order.tolist()) == list(range(len(words)))
    rows = words.rows[found.order]
    same_block = found.block[1:] == found.block[:-1]
    assert (np.diff(rows)[same_block] >= 0).all()
    gaps = words.left[found.order][1:] - words.right[found.order][:-1]
    assert (gaps[found.piece[1:] == found.piece[:-1]] <= GAP_CELLS).all()


def test_features_have_their_number_and_the_question_s_words_their_place() -> None:
    question = asked("Who built the mill of Torvald in 1902?")
    prose, box = features(question, [PROSE, BOX])
    assert prose.shape == (len(PROSE), FEATURES) and box.shape == (len(BOX), FEATURES)
    assert prose[:, AROUND].max() > 0.8 > box[:, AROUND].max()
    assert page([]).own.shape[1] == PROSE.own.shape[1]
    assert features(question, [page([])])[0].shape == (0, FEATURES)


@pytest.mark.parametrize(
    ("question", "kind", "gap"),
    [
        ("The league began with how many teams?", "how many", 4),
        ("On which date did Mira die?", "when", 1),
        ("Who built it?", "who", 0),
        ("What is the area of Torvald?", "what", 0),
        ("Torvald's area?", "other", 2),
    ],
)
def test_what_a_question_asks_for_and_where(question: str, kind: str, gap: int) -> None:
    found = asked(question)
    assert found.kinds[KINDS.index(kind)] == 1 and found.gap == gap
    assert found.kinds[KINDS.index("label")] == float(question.startswith("What is"))


def test_the_likeliest_words_are_whole_pieces_with_the_question_around() -> None:
    many = page([(3 * row, 0, f"filler{row} stuff") for row in range(30)] + [(95, 0, "Mayor Ansel Brandt")])
    question = asked("Who is the Mayor?")
    found = features(question, [many])[0]
    best = found[:, AROUND].max(1).values.numpy()
    for count in (8, 20):
        kept = likeliest(many, found, count)
        assert count <= len(kept) < count + 4 and list(kept) == sorted(kept)
        left_out = np.setdiff1d(np.arange(len(many)), kept)
        assert best[kept].min() >= best[left_out].max() - 1e-6
    assert "Mayor Ansel Brandt" in " ".join(many.lines.only(kept).texts)  # of 17 words that score alike, up to rounding


def test_spans_read_as_the_answer_whatever_case_and_marks() -> None:
    row = shown(asked("Who built it?"), [BOX, PROSE])
    assert [text_of(span, row.lines) for span in spans_of("mira castellan", row.lines)] == ["Mira Castellan"]
    assert [text_of(span, row.lines) for span in spans_of("See Map", row.lines)] == ["(see map)"]
    assert spans_of("Castell", row.lines) == spans_of("", row.lines) == spans_of("Brandt Torvald", row.lines) == []
    assert squashed("Ünï-1,9 (02)") == squashed("uni 1902")


def still(scorer: SpanScorer) -> SpanScorer:
    """All weights zero: every span has the logit 0."""
    for parameter in scorer.parameters():
        torch.nn.init.zeros_(parameter)
    return scorer.eval()


def test_a_scorer_without_opinion_gives_log_of_all_that_can_be_said() -> None:
    row = shown(asked("Who built it?"), [PROSE, BOX])
    scores = still(SpanScorer(8))(row)
    blocks = [len(PROSE), 6, 3]  # words of each
    spans = sum(min(LONGEST, size - start) for size in blocks for start in range(size))
    assert int(allowed(row.lines, len(PROSE)).sum()) == spans
    assert answer_loss(scores, []).item() == pytest.approx(math.log(spans + 1))
    found = spans_of("Torvald", row.lines)
    assert len(found) == 2
    assert answer_loss(scores, found).item() == pytest.approx(math.log((spans + 1) / 2))
    half = answer_loss(scores, found, torch.full((2,), math.log(0.5)))
    assert half.item() == pytest.approx(math.log(spans + 1))
    assert best_span(scores) is None  # no span is likelier than none


def test_nothing_read_is_no_answer() -> None:
    scores = SpanScorer(8).eval()(shown(asked("Who?"), [page([])]))
    assert best_span(scores) is None and answer_loss(scores, []).item() == pytest.approx(0)


def test_a_question_without_words_and_one_without_tiles_are_no_crash() -> None:
    scorer = SpanScorer(8).eval()
    for question in ("???", "谁?"):
        assert scorer(shown(asked(question), [PROSE, page([])])).spans.isfinite().any()
    assert best_span(scorer(shown(asked("Who built it?"), []))) is None


def read(pages: Sequence[Page], answer: str | None) -> Row:
    """Row "What is the Area?" of ``pages``; its answer isn't there if None."""
    seen = shown(asked("What is the Area?"), pages)
    example = ReaderExample("q", "What is the Area?", answer or "", ("a-0000-00",), 0 if answer else None, 1.0)
    return Row(example, seen, tuple(spans_of(answer, seen.lines)) if answer else ())


def test_a_batch_in_which_nothing_was_read_teaches_nothing() -> None:
    torch.manual_seed(0)
    scorer, losses = SpanScorer(8), list[float]()
    before, blank = copy_of(scorer), read([page([])], None)
    train_scorer(scorer, [blank, blank], Settings(2, 1, 0.01, 0.1, 0, 0), lambda _, loss: losses.append(loss))
    assert losses == [0, 0] and all(torch.equal(value, before[name]) for name, value in scorer.state_dict().items())
    train_scorer(scorer, [blank, read([BOX], "87 km")], Settings(2, 1, 0.01, 0.1, 0, 0), lambda _, loss: None)
    assert not torch.equal(scorer.enter.weight, before["enter.weight"])


@pytest.mark.parametrize("pages", [[], [page([])], [page([(1, 0, "Area")])]])
def test_spread_of_fewer_than_two_words_is_left_alone(pages: list[Page]) -> None:
    scorer = SpanScorer(8)
    normalise(scorer, [read(pages, None)])
    assert not scorer.mean.any() and (scorer.scale == 1).all()


def test_the_order_of_tiles_changes_nothing_but_places() -> None:
    torch.manual_seed(0)
    scorer, question = SpanScorer(8).eval(), asked("Who built the mill of Torvald?")
    one, two = (scorer(shown(question, pages)) for pages in ([PROSE, BOX], [BOX, PROSE]))
    assert torch.allclose(one.spans, two.spans.flip(0)) and torch.allclose(one.none, two.none)


def test_a_scorer_learns_to_point_at_what_stands_behind_a_label() -> None:
    torch.manual_seed(0)
    rows = []
    for number in range(12):
        lines = [
            (1 + 3 * place, 0, f"{label} v{number}{label[0]}") for place, label in enumerate(("Area", "Mayor", "Zone"))
        ]
        for label in ("Area", "Mayor", "Zone"):
            row = shown(asked(f"What is the {label}?"), [page(lines)])
            rows.append((row, f"v{number}{label[0]}", spans_of(f"v{number}{label[0]}", row.lines)))
    scorer = SpanScorer(16, dropout=0.0)
    optimizer = torch.optim.AdamW(scorer.parameters(), lr=1e-2)
    for _ in range(15):
        loss = torch.stack([answer_loss(scorer(row), spans) for row, _, spans in rows[:27]]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    said = [(best_span(scorer.eval()(row)), row, answer) for row, answer, _ in rows[27:]]
    assert [text_of(span, row.lines) if span else None for span, row, _ in said] == [answer for _, _, answer in said]


def test_a_scorer_and_words_survive_the_disk(tmp_path: Path) -> None:
    torch.manual_seed(1)
    scorer = SpanScorer(8).eval()
    save_scorer(scorer, tmp_path / "reader")
    row = shown(asked("Who built the mill?"), [PROSE])
    assert torch.equal(load_scorer(tmp_path / "reader")(row).spans, scorer(row).spans)
    words = typed([(1, 0, "Mira Castellan")])
    words.save(tmp_path / "words.npz")
    again = TileWords.load(tmp_path / "words.npz")
    assert again.texts == words.texts and again.size == words.size and (again.vectors == words.vectors).all()
    empty = dataclasses.replace(typed([]), size=(3, 4))
    empty.save(tmp_path / "empty.npz")
    assert TileWords.load(tmp_path / "empty.npz").texts == ()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00\x10\x00{broken", b"\x80\x04N."])
def test_broken_words_are_the_user_s_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "words.npz").write_bytes(content)
    with pytest.raises(InputError, match="delete it"):
        TileWords.load(tmp_path / "words.npz")


@pytest.mark.parametrize(
    "part",
    [
        {"size": np.array(3)},
        {"rows": np.array(1, np.int16)},
        {"rows": np.zeros((2, 1), np.int16)},
        {"rows": np.array(["a", "b"])},
        {"vectors": np.zeros((2, 7), np.int8)},
        {"texts": np.frombuffer(b"MiraCastellan\n", np.uint8)},
    ],
    ids=lambda part: next(iter(part)),
)
def test_words_with_other_arrays_are_the_user_s_error(tmp_path: Path, part: dict[str, Any]) -> None:
    typed([(1, 0, "Mira Castellan")]).save(tmp_path / "words.npz")
    with np.load(tmp_path / "words.npz") as found:
        arrays = dict(found) | part
    np.savez(tmp_path / "words.npz", **arrays)
    with pytest.raises(InputError, match="delete it"):
        TileWords.load(tmp_path / "words.npz")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": 1}', '{"schema": 9, "width": 8}', '{"schema": 1, "width": true}']
)
def test_broken_settings_are_the_user_s_error(tmp_path: Path, text: str) -> None:
    save_scorer(SpanScorer(8), tmp_path)
    (tmp_path / "nano_reader.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="wanted"):
        load_scorer(tmp_path)


def test_a_question_s_words_are_those_with_letters() -> None:
    found = asked("Is 9 - 5 = four ?")
    assert found.words == ("Is", "9", "5", "four") and len(found.vectors) == 4
    assert len(trigrams_of("=")) == 0
