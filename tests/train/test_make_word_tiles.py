"""Drawn words: pictures say what rows ask, held-out scenes are new, letters are large; and a reader learns them."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.load import load
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import ReaderExample, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.train import make_tiny_model, train_reader
from tilewright.train.compress import compress
from tilewright.train.make_word_tiles import COLOURS, LETTER_PX, PAPER, PLACES, STAGE, Config, make_word_tiles
from tilewright.train.reader import Reader, load_reader
from tilewright.train.reader_batch import ReaderCollator, ReaderInput, build_batch
from tilewright.train.reader_validation import Validation

CONFIGS = Path(__file__).parents[2] / "configs/train"
WORDS = ("OX", "ELK", "CAT")
SPLITS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    out = tmp_path_factory.mktemp("words") / "words"
    sizes = {"train": 20, "validation": 10, "test": 6, "copies": 3}
    config = Config(out=out, seed=3, alone=0.5, words=WORDS, compression=2.0, **sizes)
    run_stage(STAGE, config)
    return config


def rows(config: Config, split: str) -> list[ReaderExample]:
    return read_jsonl(config.out / f"examples/{split}.jsonl", ReaderExample)


def colours_of(pixels: np.ndarray) -> set[str]:
    """Names of the colours that at least ten pixels have in full."""
    return {name for name, rgb in COLOURS.items() if (pixels == np.array(rgb)).all(-1).sum() >= 10}


def test_a_picture_says_what_its_row_asks(config: Config) -> None:
    """The asked colour is in the picture, and the answer is that line of its text; places likewise."""
    store = TileStore.open(config.out)
    for split in SPLITS:
        for row in rows(config, split):
            tile, name = store.get(row.tile_ids[0]), row.query.split()[3]
            image = np.asarray(store.image(row.tile_ids[0]))
            halves = dict(zip(PLACES, (image[: len(image) // 2], image[len(image) // 2 :]), strict=True))
            words = tile.text.split("\n")
            drawn = {place: colours_of(half) for place, half in halves.items()}
            place = name if name in PLACES else next(place for place in PLACES if name in drawn[place])
            assert all(len(found) == (1 if len(words) == 2 or key == place else 0) for key, found in drawn.items())
            assert row.answer == (words[PLACES.index(place)] if len(words) == 2 else words[0])
            assert row.compression == 2.0 and row.gold_position == 0


def test_letters_are_large_at_1x(config: Config) -> None:
    """Rows of pixels with ink, measured on pictures with one word: 32 px or more."""
    store = TileStore.open(config.out)
    alone = [tile for tile in store if tile.text in WORDS]
    assert alone
    for tile in alone:
        ink = (np.asarray(store.image(tile.tile_id)) != np.array(PAPER)).any(-1)
        assert LETTER_PX >= 32 and LETTER_PX <= ink.any(1).sum() <= LETTER_PX + 3


def test_held_out_scenes_are_on_no_training_picture(config: Config) -> None:
    store = TileStore.open(config.out)
    scenes = {
        split: {store.light(row.tile_ids[0]).url.rpartition("/")[0] for row in rows(config, split)} for split in SPLITS
    }
    assert [len(scenes[split]) for split in SPLITS] == [20, 10, 6] and len(set.union(*scenes.values())) == 36
    assert [len(rows(config, split)) for split in SPLITS] == [60, 40, 24]
    alone = sum("\n" not in store.light(row.tile_ids[0]).text for row in rows(config, "train")) / 60
    by_colour = sum(row.query.split()[3] in COLOURS for row in rows(config, "train")) / 60
    assert 0.25 < alone < 0.75 and 0.25 < by_colour < 0.75
    assert sum(row.query.split()[3] in COLOURS for row in rows(config, "test")) == 12


def test_colours_are_as_far_from_each_other_as_can_be() -> None:
    """From the paper's grey all are equally far, and each two at the angle of a tetrahedron's corners."""
    rays = np.sign(np.array(list(COLOURS.values())) - np.array(PAPER))
    assert (rays @ rays.T == 4 * np.eye(len(COLOURS)) - 1).all()


def test_the_bytes_depend_on_the_config_alone(config: Config, tmp_path: Path) -> None:
    make_word_tiles(config, {}, tmp_path)
    assert output_digests(tmp_path) == output_digests(config.out)


def test_what_cannot_be_drawn_is_refused(config: Config, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="HIPPOPOTAMUS takes"):
        make_word_tiles(dataclasses.replace(config, words=("HIPPOPOTAMUS", "OX", "ELK")), {}, tmp_path)
    with pytest.raises(InputError, match="give 24 scenes, wanted 36"):
        make_word_tiles(dataclasses.replace(config, words=("OX", "ELK")), {}, tmp_path)
    with pytest.raises(ValueError, match="words: wanted two or more"):
        dataclasses.replace(config, words=("OX", "ox"))


def right(reader: Reader, store: TileStore, asked: list[ReaderExample], shown: list[str], words: list[str]) -> float:
    """Share of questions whose likeliest word, of ``words`` alone, is the answer, when ``shown`` tiles are shown."""
    ids = [reader.prompt.answer(word)[0] for word in words]
    count = 0
    for row, tile_id in zip(asked, shown, strict=True):
        image = compress(store.image(tile_id), row.compression)
        inputs = reader.to_model(build_batch([ReaderInput(row.query, (image,))], reader.prompt, reader.policy))
        with torch.no_grad():
            scores = reader.model(**inputs).logits[0, -1]
        count += words[int(scores[ids].argmax())] == row.answer
    return count / len(asked)


def said(reader: Reader, store: TileStore, asked: list[ReaderExample]) -> float:
    """Share of questions that the reader answers rightly in its own words."""
    collator = ReaderCollator(store, reader.prompt, reader.policy)
    validation = Validation(reader, collator, asked, questions=len(asked), batch_size=32, max_new_tokens=2)
    return validation.figures()["validation_exact_match"]


@pytest.mark.slow
def test_sft_at_2x_learns_to_read_what_the_untrained_reader_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tilewright run configs/reading.yaml`: on scenes that nothing was chosen on, from chance to 0.9 and more.

    Before training no answer is right, and the likeliest word of four is right by chance (0.25). What is learned is
    read from the picture: with another scene's picture the same questions are answered no better than by guessing.
    """
    monkeypatch.setenv("TILEWRIGHT_RUNS", str(tmp_path))
    data = load(CONFIGS / "make_word_tiles/reading.yaml", Config)
    model = load(CONFIGS / "make_tiny_model/reading.yaml", make_tiny_model.Config)
    run = load(CONFIGS / "train_reader/reading.yaml", train_reader.Config)
    run_stage(STAGE, data)
    run_stage(make_tiny_model.STAGE, model)
    figures = run_stage(train_reader.STAGE, run)["counts"]["validation"]
    assert figures["before"]["validation_exact_match"] < 0.05
    assert figures["best"]["validation_exact_match"] >= 0.9
    store, asked, words = TileStore.open(data.out), rows(data, "test"), list(data.words)
    own = [row.tile_ids[0] for row in asked]
    other = own[len(own) // 2 :] + own[: len(own) // 2]
    untrained, trained = load_reader(run.model), load_reader(run.out / "checkpoint")
    assert said(untrained, store, asked) < 0.05 and right(untrained, store, asked, own, words) < 0.4
    assert all(len(trained.prompt.answer(word)) == 2 for word in words), "a word is one token, and the end"
    assert said(trained, store, asked) >= 0.9 and right(trained, store, asked, own, words) >= 0.9
    assert right(trained, store, asked, other, words) < 0.4
