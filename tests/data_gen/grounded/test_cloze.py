"""Cloze questions: one word of a sentence is hidden, and question and answer together are the sentence."""

import dataclasses
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tilewright.configs.stage import run_stage
from tilewright.data_gen.annotator import Generated, Skip
from tilewright.data_gen.filter_pairs import says
from tilewright.data_gen.gates import GateConfig
from tilewright.data_gen.grounded.cloze import BLANK, MIN_KEY_TERMS, ClozeAnnotator, cloze
from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.data_gen.grounded.terms import key_terms, terms
from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.make_queries import STAGE, Config
from tilewright.data_gen.records import Block, Page, QAPair, Tile, read_jsonl, write_jsonl
from tilewright.data_gen.tile_store import write_store
from tilewright.data_gen.verdicts import Verdict

SENTENCE = "Finds the last byte in the moss buffer that compares equal to any letter of the fern alphabet."
OTHER = "Throws an overflow error when the moss buffer holds more ferns than the garden has room for."
TEXT = "moss fern garden buffer letter alphabet overflow room byte the of in and compares holds"
WORDS = st.sampled_from(TEXT.split())


def pairs_of(tile: Tile, most: int = 100) -> Generated:
    found = ClozeAnnotator(most).generate(tile)
    assert isinstance(found, Generated)
    return found


def test_question_and_answer_are_the_sentence_and_the_judge_finds_them(
    make_tile: Callable[..., Tile], make_block: Callable[..., Block]
) -> None:
    tile = make_tile("std::moss", [make_block("paragraph", f"{SENTENCE} {OTHER}"), make_block("list_item", "No.")])
    found = pairs_of(tile)
    assert {pair.query.replace(BLANK, pair.answer) for pair in found.pairs} == {SENTENCE, OTHER}
    for pair in found.pairs:
        assert pair.query.count(BLANK) == 1 and pair.source_span in tile.text and not says(pair.query, pair.answer)
        assert GroundedJudge().judge(pair.query, (pair.answer,), tile) is Verdict.CORRECT
    assert pairs_of(tile) == found, "the same tile, the same pairs"


def test_a_tile_that_states_something_else_is_no_answer(
    make_tile: Callable[..., Tile], make_block: Callable[..., Block]
) -> None:
    query, answer = cloze(SENTENCE, frozenset()) or pytest.fail("no question")
    tile = make_tile("std::fern", [make_block("paragraph", OTHER)])
    assert GroundedJudge().judge(query, (answer,), tile) is Verdict.CANNOT_ANSWER
    changed = make_tile("std::fern", [make_block("paragraph", SENTENCE.replace(answer, "rhubarb"))])
    assert GroundedJudge().judge(query, (answer,), changed) is Verdict.WRONG


@given(st.lists(WORDS, min_size=6, max_size=30))
def test_the_hidden_word_stands_once_and_enough_is_left(found: list[str]) -> None:
    sentence = f"{' '.join(found).capitalize()}."
    asked = cloze(sentence, frozenset({"moss"}))
    candidates = [word for word in key_terms(sentence) - {"moss"} if terms(sentence).count(word) == 1]
    if asked is None:
        assert not candidates or len(key_terms(sentence)) - 1 < MIN_KEY_TERMS
    else:
        query, answer = asked
        assert terms(answer)[0] in candidates and query.replace(BLANK, answer) == sentence


def test_no_word_is_hidden_inside_code_or_a_compound() -> None:
    code = "The call to std::advance(first, last) is in well-formed code of moss_buffer or fern::garden or alphabet()."
    asked = cloze(code, frozenset())
    assert asked is not None and asked[1] in ("call", "code")


def test_what_gives_no_question(make_tile: Callable[..., Tile], make_block: Callable[..., Block]) -> None:
    annotator = ClozeAnnotator(10)
    code = make_block("paragraph", "int main() { return moss(1, 2, 3); } // the moss of the garden has seven ferns")
    assert annotator.generate(make_tile("Empty", [])) == Skip("no_text")
    assert annotator.generate(make_tile("Code", [code, make_block("paragraph", "Moss is green.")])) == Skip("no_fact")
    cut = make_block("paragraph", f"{SENTENCE} {OTHER}", whole=False)
    assert annotator.generate(make_tile("Cut", [cut])) == Skip("no_fact"), "first and last sentence may be cut"
    middle = make_tile("Cut", [make_block("heading", "Moss"), cut, code])
    assert [pair.source_span for pair in pairs_of(middle).pairs] != [] and len(pairs_of(middle).pairs) == 2


def test_drops_are_counted(make_tile: Callable[..., Tile], make_block: Callable[..., Block]) -> None:
    tile = make_tile("std::moss", [make_block("paragraph", f"{SENTENCE} {OTHER}"), make_block("paragraph", OTHER)])
    found = pairs_of(tile, most=1)
    assert len(found.pairs) == 1
    assert found.dropped == {"repeated_on_tile": 1, "over_max_pairs": 1}
    other_text = make_tile("std::moss", [make_block("paragraph", OTHER)], text="Something else stands here.")
    assert ClozeAnnotator(1).generate(other_text) == Skip("no_fact", {"answer_not_in_tile": 1})


def test_a_question_that_another_sentence_answers_otherwise_is_dropped(
    make_tile: Callable[..., Tile], make_block: Callable[..., Block]
) -> None:
    query, answer = cloze(SENTENCE, frozenset({"moss"})) or pytest.fail("no question")
    other = query.replace(BLANK, "rhubarb")
    tile = make_tile("std::moss", [make_block("paragraph", SENTENCE), make_block("list_item", f"{other} {OTHER}")])
    found = pairs_of(tile)
    assert query not in {pair.query for pair in found.pairs} and found.dropped["two_answers_on_tile"] >= 1
    assert sum(found.dropped.values()) + len(found.pairs) == 3
    same = make_tile("std::moss", [make_block("paragraph", query.replace(BLANK, answer.upper())), *tile.blocks[:1]])
    assert "two_answers_on_tile" not in pairs_of(same).dropped, "the same word in other letters"


def test_a_sentence_with_a_blank_of_its_own_gives_no_question() -> None:
    assert cloze(SENTENCE, frozenset()) and cloze(SENTENCE.replace("byte", "____"), frozenset()) is None


@pytest.mark.parametrize("word", ["भारतीय उपमहाद्वीप", "extra\u00adordinary", "gara\u0308gen"])
def test_no_part_of_a_word_is_hidden(word: str) -> None:
    sentence = f"He of the {word} and us all."
    parts = [match.group() for match in re.finditer(r"[^\W\d_]{4,}", word)]
    assert parts, "a part alone looks like a word"
    for number in range(12):
        asked = cloze(f"{sentence} {number} mossy ferns in a green garden with buffers and bytes", frozenset())
        assert asked is not None and asked[1] not in parts


def test_the_stage_asks_with_it(
    make_tile: Callable[..., Tile], make_block: Callable[..., Block], tmp_path: Path
) -> None:
    tile = make_tile("std::moss", [make_block("paragraph", f"{SENTENCE} {OTHER}")])
    picture, buffer = Image.new("RGB", (40, 40), "white"), io.BytesIO()
    picture.save(buffer, "PNG")
    tile = dataclasses.replace(tile, image=buffer.getvalue(), image_sha256=image_sha256(picture))
    (tmp_path / "tiles").mkdir()
    write_store(tmp_path / "tiles/store", [tile])
    write_jsonl(tmp_path / "tiles/pages.jsonl", [Page(tile.page_id, tile.url, tile.title, "", "x", 875, 1024, True, 1)])
    gates = GateConfig(0, False, (), 1.0, 0, 0.0, 0.0, None)
    config = Config(tmp_path / "queries", "cloze", 10, gates, tiles=tmp_path / "tiles")
    counts = run_stage(STAGE, config)["counts"]
    found = read_jsonl(tmp_path / "queries/pairs.jsonl", QAPair)
    assert counts["annotator"] == "cloze/1" and counts["pairs"] == len(found) == 2
    assert {(pair.query, pair.answer) for pair in found} == {(raw.query, raw.answer) for raw in pairs_of(tile).pairs}
