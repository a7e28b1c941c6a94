"""Rows of a reader: masks token by token, pictures that stay apart, six tiles of six sizes, rows that can't be used."""

import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.records import ReaderExample, Tile, write_jsonl
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.train.compress import compress
from tilewright.train.pixels import patchify, policy_tokens, synthetic_image
from tilewright.train.reader import Reader
from tilewright.train.reader_batch import IGNORED, ReaderCollator, ReaderInput, answer_loss, build_batch
from tilewright.train.reader_config import Config
from tilewright.train.reader_cost import ContextError
from tilewright.train.reader_prompt import INSTRUCTION
from tilewright.train.train_reader import STAGE


@pytest.fixture(scope="module")
def reader(reader_parts: Any) -> Reader:
    loaded: Reader = reader_parts.load()
    return loaded


def make_tile(page: int, url: str, image: Image.Image, *, pictured: bool = True) -> Tile:
    encoded = io.BytesIO()
    image.save(encoded, "PNG")
    return Tile(
        tile_id=f"{page:016x}-0000-00",
        page_id=f"{page:016x}",
        url=url,
        title="Mercury",
        row=0,
        column=0,
        x_px=0,
        y_px=0,
        width_px=image.width,
        height_px=image.height,
        image=encoded.getvalue() if pictured else b"",
        image_sha256=image_sha256(image),
        text="",
        evidence_px={"infobox": 0, "table": 0, "list": 0, "paragraph": 0},
    )


def test_masks_token_by_token(reader: Reader) -> None:
    """Two rows written out by hand: each piece of text with whether it is learned. Digits are one token each."""
    small, wide = synthetic_image(64, 64), synthetic_image(96, 64, 1)
    rows = [ReaderInput("How many?", (small, wide), "42"), ReaderInput("Which one of the two?", (wide,), "7")]
    image = "<|vision_start|>" + "{}" + "<|vision_end|>"
    start, turn = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
    two_images = image.format("<|image_pad|>" * 4) + image.format("<|image_pad|>" * 6)
    by_hand = [
        [
            (start + two_images, False),
            (f"{INSTRUCTION}\nQuestion: How many?", False),
            (turn, False),
            ("4", True),
            ("2", True),
            ("<|im_end|>", True),
        ],
        [
            (start + image.format("<|image_pad|>" * 6), False),
            (f"{INSTRUCTION}\nQuestion: Which one of the two?", False),
            (turn, False),
            ("7", True),
            ("<|im_end|>", True),
        ],
    ]
    tokenizer = reader.prompt.tokenizer
    batch = build_batch(rows, reader.prompt, reader.policy)
    for i, pieces in enumerate(by_hand):
        tokens = [(token, learned) for text, learned in pieces for token in tokenizer(text)["input_ids"]]
        padding = batch["input_ids"].shape[1] - len(tokens)
        found = list(zip(batch["input_ids"][i].tolist(), batch["labels"][i].tolist(), strict=True))
        assert found[:padding] == [(reader.prompt.pad_id, IGNORED)] * padding
        assert batch["attention_mask"][i].tolist() == [0] * padding + [1] * len(tokens)
        assert found[padding:] == [(token, token if learned else IGNORED) for token, learned in tokens]
    assert sum(learned for _, learned in by_hand[0]) == 3 and batch["logits_to_keep"] == 4


def test_training_and_evaluation_share_the_prompt(reader: Reader) -> None:
    """What stands before the answer in training is, token by token, what a question alone is made into."""
    images = (synthetic_image(64, 64), synthetic_image(96, 64, 1))
    trained = build_batch([ReaderInput("Who?", images, "Ada")], reader.prompt, reader.policy)
    asked = build_batch([ReaderInput("Who?", images)], reader.prompt, reader.policy)
    length = asked["input_ids"].shape[1]
    assert torch.equal(trained["input_ids"][:, :length], asked["input_ids"])
    assert torch.equal(trained["patches"], asked["patches"]) and "labels" not in asked
    assert int((trained["labels"][:, :length] != IGNORED).sum()) == 0


def test_two_articles_with_one_base_name_stay_apart(reader: Reader, tmp_path: Path) -> None:
    """Same title, same last part of the address, same place on the page: each row shows its own article's picture."""
    pictures = {page: synthetic_image(90, 80, page) for page in (1, 2)}
    addresses = {1: "https://en.example.org/planets/Mercury", 2: "https://en.example.org/elements/Mercury"}
    write_store(tmp_path / "tiles", [make_tile(page, addresses[page], pictures[page]) for page in (1, 2)])
    collator = ReaderCollator(TileStore.open(tmp_path / "tiles"), reader.prompt, reader.policy)
    ids = {page: f"{page:016x}-0000-00" for page in (1, 2)}
    for shown in ((1, 2), (2, 1), (2,), (1,)):
        example = ReaderExample("q", "Who?", "Ada", tuple(ids[page] for page in shown), 0, 2.0)
        batch = collator([example])
        wanted, _ = patchify([compress(pictures[page], 2.0) for page in shown], reader.policy)
        assert torch.equal(batch["patches"], wanted)


def test_six_tiles_of_six_sizes(reader: Reader, tmp_path: Path) -> None:
    """In a batch with a row of one tile: grids, tokens and loss are those of each row alone."""
    sizes = [(200, 120), (96, 300), (64, 64), (333, 77), (20, 20), (150, 151)]
    tiles = [
        make_tile(number, f"https://a.example/{number}", synthetic_image(*size, number))
        for number, size in enumerate(sizes, start=1)
    ]
    write_store(tmp_path / "tiles", tiles)
    collator = ReaderCollator(TileStore.open(tmp_path / "tiles"), reader.prompt, reader.policy)
    ids = tuple(tile.tile_id for tile in tiles)
    examples = [
        ReaderExample("six", "Which city?", "Oslo", ids, 3, 2.0),
        ReaderExample("one", "Who was it then?", "Ada", ids[4:5], 0, 1.0),
    ]
    batch = collator(examples)
    shown = [compress(TileStore.open(tmp_path / "tiles").image(tile_id), 2.0) for tile_id in ids]
    tokens = [policy_tokens(*image.size, reader.policy) for image in shown]
    assert (batch["image_grid_thw"].prod(1) // 4).tolist() == [*tokens, policy_tokens(20, 20, reader.policy)]
    assert batch["mm_token_type_ids"].sum(1).tolist() == [sum(tokens), policy_tokens(20, 20, reader.policy)]
    assert len(set(tokens)) > 3

    def loss_and_tokens(rows: list[ReaderExample]) -> tuple[float, int]:
        inputs = reader.to_model(collator(rows))
        labels = inputs.pop("labels")
        with torch.no_grad():
            return float(answer_loss(reader.model(**inputs).logits, labels, 1)), int((labels != IGNORED).sum())

    together, alone = loss_and_tokens(examples), [loss_and_tokens([example]) for example in examples]
    assert together[0] == pytest.approx(sum(loss for loss, _ in alone), rel=1e-5)
    assert together[1] == sum(count for _, count in alone)


@pytest.fixture
def config(reader_parts: Any, tmp_path: Path) -> Config:
    (tmp_path / "data").mkdir()
    row = ReaderExample("q-long", "Who?", "Ada", reader_parts.tile_ids[:3], 0, 1.0)
    write_jsonl(tmp_path / "data/train.jsonl", [dataclasses.replace(row, query_id="q-short", compression=9.0), row])
    write_jsonl(tmp_path / "data/validation.jsonl", [])
    return Config(
        out=tmp_path / "reader",
        model=reader_parts.model,
        examples=tmp_path / "data",
        tiles=reader_parts.tiles,
        steps=1,
        batch_size=1,
        learning_rate=1.0e-3,
        warmup_steps=0,
        adapters=None,
        max_pixels=None,
        evaluate_every=1,
        validation_questions=1,
        save_every=1,
        threads=1,
        seed=5,
        keep="best",
    )


def test_a_missing_image_is_an_error_with_its_id_before_training(config: Config, reader_parts: Any) -> None:
    """A tile that the store holds without its picture; the rest of the store is whole."""
    missing = reader_parts.tile_ids[1]
    tiles = [dataclasses.replace(tile, image=b"") if tile.tile_id == missing else tile for tile in reader_parts.store()]
    write_store(config.out.with_name("tiles"), tiles)
    without = dataclasses.replace(config, tiles=config.out.with_name("tiles"))
    with pytest.raises(InputError, match=f"q-short: tile {missing} of .* has no image"):
        run_stage(STAGE, without)
    assert not list(config.out.parent.rglob("checkpoint-*"))


def test_a_broken_image_is_an_error_with_its_id(config: Config, reader: Reader, reader_parts: Any) -> None:
    broken = reader_parts.tile_ids[0]
    tiles = [
        dataclasses.replace(tile, image=b"torn") if tile.tile_id == broken else tile for tile in reader_parts.store()
    ]
    write_store(config.out.with_name("tiles"), tiles)
    collator = ReaderCollator(TileStore.open(config.out.with_name("tiles")), reader.prompt, reader.policy)
    with pytest.raises(InputError, match=f"tile {broken}"):
        collator([ReaderExample("q", "Who?", "Ada", (broken,), 0, 2.0)])


def test_a_row_longer_than_the_context_is_an_error_before_training(config: Config, reader_parts: Any) -> None:
    """By one token: the limit is the length that the row has in a batch."""
    reader = reader_parts.load()
    images = tuple(reader_parts.store().image(tile_id) for tile_id in reader_parts.tile_ids[:3])
    length = build_batch([ReaderInput("Who?", images, "Ada")], reader.prompt, reader.policy)["input_ids"].shape[1]
    with pytest.raises(ContextError, match=rf"1 rows are longer .* {length - 1} tokens; the longest, q-long, has 3"):
        run_stage(STAGE, dataclasses.replace(config, max_tokens=length - 1))
    assert not list(config.out.parent.rglob("checkpoint-*"))
    counts = run_stage(STAGE, dataclasses.replace(config, max_tokens=length, out=config.out.with_name("fits")))[
        "counts"
    ]
    assert counts["costs"]["train"]["tokens_max"] == length
    assert counts["costs"]["train"]["images_enlarged_to_min_pixels"] == 3, "at 9x these tiles are below min_pixels"
