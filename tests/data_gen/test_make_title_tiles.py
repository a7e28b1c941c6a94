"""The drawn corpus: the same from a seed, no word in two splits, one tile for each question, drawn as asked."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.drawn_page import FACT_PX, HEIGHT_PX, TITLE_PX, WIDTH_PX, draw_page, load_fonts
from tilewright.data_gen.invented_words import InventedWords
from tilewright.data_gen.make_title_tiles import FACTS, STAGE, Config
from tilewright.data_gen.pair_files import read_pair_file
from tilewright.data_gen.records import QAPair, TextPair, TrainingExample, read_jsonl
from tilewright.data_gen.splits import SPLITS, pages_of_split
from tilewright.data_gen.tile_store import TileStore


def config(out: Path) -> Config:
    tiles = {"train": 12, "validation": 6, "test": 3}
    return Config(out=out, seed=3, tiles=tiles, queries_per_tile=2, layout="list", font=None)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("titles") / "corpus"
    run_stage(STAGE, config(out))
    return out


def pairs_of(corpus: Path, split: str) -> list[QAPair]:
    return read_pair_file(corpus / "splits" / f"{split}.jsonl")


def words_of(store: TileStore, tile_id: str) -> set[str]:
    """The invented words of a tile: the only ones that start with a capital."""
    return {word for word in store.light(tile_id).text.split() if word[0].isupper()}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(corpus: Path, tmp_path: Path) -> None:
    again = run_stage(STAGE, config(tmp_path / "again"))["outputs"]
    assert again == json.loads((corpus / "manifest.json").read_text())["outputs"]
    other = run_stage(STAGE, dataclasses.replace(config(tmp_path / "other"), seed=4))["outputs"]
    assert again.keys() == other.keys() and again["examples.jsonl"] != other["examples.jsonl"]


def test_no_two_splits_share_a_word_or_a_page(corpus: Path) -> None:
    store = TileStore.open(corpus)
    listed = {split: pages_of_split(corpus / "splits" / "pages.json", split) for split in SPLITS}
    assert {split: len(pages) for split, pages in listed.items()} == {"train": 12, "validation": 6, "test": 3}
    words = {
        split: set().union(*(words_of(store, f"{page}-0000-00") for page in pages)) for split, pages in listed.items()
    }
    assert all(len(found) > 10 for found in words.values())
    assert sum(map(len, words.values())) == len(set().union(*words.values()))


def test_a_question_names_a_title_that_one_tile_has_and_a_fact_of_that_tile(corpus: Path) -> None:
    store = TileStore.open(corpus)
    titles = [tile.title for tile in store.iterate_light()]
    assert len(set(titles)) == len(titles) == 21
    for split in SPLITS:
        pairs = pairs_of(corpus, split)
        assert (
            len({pair.query for pair in pairs})
            == len(pairs)
            == 2 * len(pages_of_split(corpus / "splits" / "pages.json", split))
        )
        for pair in pairs:
            tile = store.light(pair.tile_id)
            title, *facts = tile.text.split("\n")
            name, value = pair.source_span.split(": ")
            assert title == tile.title == pair.subject and pair.query.startswith(f"{title}: ") and name in pair.query
            assert value == pair.answer and pair.source_span in facts and len(facts) == FACTS


def test_training_files_speak_of_training_tiles_alone(corpus: Path) -> None:
    training = pages_of_split(corpus / "splits" / "pages.json", "train")
    pairs = {pair.query_id: pair for pair in pairs_of(corpus, "train")}
    examples = read_jsonl(corpus / "examples.jsonl", TrainingExample)
    assert [pairs[example.query_id].tile_id for example in examples] == [pair.tile_id for pair in pairs.values()]
    texts = read_jsonl(corpus / "text_pairs.jsonl", TextPair)
    store, light = TileStore.open(corpus), TileStore.open(corpus / "training_text")
    assert {text.page_id for text in texts} == training == {tile.page_id for tile in light.iterate_light()}
    assert all(text.passage == store.light(pairs[text.pair_id].tile_id).text for text in texts)
    assert all(store.light(tile.tile_id).text in tile.text for tile in light.iterate_light())
    assert light.encoded_image(light.tile_ids[0]) == b""


def ink_rows(pixels: np.ndarray) -> list[int]:
    """Heights of the runs of rows with ink, top to bottom."""
    inked = np.flatnonzero((pixels < 128).any(axis=1))
    return [len(run) for run in np.split(inked, np.flatnonzero(np.diff(inked) > 1) + 1)]


def test_a_drawn_list_has_a_line_of_28_px_and_six_of_18_px(corpus: Path) -> None:
    store = TileStore.open(corpus)
    image = store.image(store.tile_ids[0])
    assert image.size == (WIDTH_PX, HEIGHT_PX) == (448, 512)
    title, *facts = ink_rows(np.asarray(image.convert("L")))
    assert 0.6 * TITLE_PX < title <= 1.2 * TITLE_PX and len(facts) == FACTS
    assert all(0.6 * FACT_PX < fact <= 1.2 * FACT_PX for fact in facts)


def test_layouts_differ_and_each_fact_changes_the_picture() -> None:
    fonts = load_fonts(None)
    facts = {f"name{number}": f"Value{number}" for number in range(FACTS)}
    pictures = {layout: draw_page("Bazu Kilo", facts, layout, fonts).tobytes() for layout in ("list", "cards")}
    assert pictures["list"] != pictures["cards"]
    for layout, picture in pictures.items():
        assert draw_page("Bazu Kila", facts, layout, fonts).tobytes() != picture
        assert all(
            draw_page("Bazu Kilo", facts | {name: "Other"}, layout, fonts).tobytes() != picture for name in facts
        )


def test_a_missing_font_and_too_few_syllables_are_errors_that_say_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'No Such Font\.ttf' isn't installed"):
        run_stage(STAGE, dataclasses.replace(config(tmp_path / "font"), font="No Such Font.ttf"))
    with pytest.raises(InputError, match="too few words"):
        run_stage(STAGE, dataclasses.replace(config(tmp_path / "few"), syllables=3))
    with pytest.raises(InputError, match="wanted 3 to 75, found 80"):
        InventedWords(0, 80)
    with pytest.raises(ValueError, match="wanted a number for each of"):
        dataclasses.replace(config(tmp_path / "splits"), tiles={"train": 1})
