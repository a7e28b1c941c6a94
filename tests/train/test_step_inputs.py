"""A step's inputs: rows in the labels' order, equal pictures once, texts under the tiles' instruction, a cache."""

import dataclasses
import io
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import TextPair, TrainingExample, to_json
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.train.batch import Batch
from tilewright.train.batch_plan import BatchPlan
from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.step_inputs import Piece, StepInputMaker, TileInputs, stack
from tilewright.train.text_plan import TextPlan, WarmupPlan

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def encoder(reader_parts: Any) -> Encoder:
    return load_encoder(reader_parts.model.parent / "embedder")


def assert_same(one: Batch | None, other: Batch | None) -> None:
    assert one is not None and other is not None
    for name in ("input_ids", "attention_mask", "position_ids", "pooled"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    for name in ("patches", "grids"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None and b is None) or torch.equal(a, b), name
    assert one.image_rows == other.image_rows


def test_rows_are_queries_and_tiles_of_the_labels(encoder: Encoder, reader_parts: Any) -> None:
    ids, store = reader_parts.tile_ids, reader_parts.store()
    examples = [TrainingExample(f"q{n}", f"Question {n}?", ids[n], ids[n + 1 : n + 1 + n]) for n in range(4)]
    plan = BatchPlan(examples, batch_size=4, seed=0)
    planned = plan.batch(0)
    inputs = StepInputMaker(plan, TileInputs(encoder.batcher, store), 0, 1)(0)
    assert_same(inputs.queries, encoder.query_batch([example.query for example in planned.examples]))
    assert_same(inputs.tiles, encoder.tile_batch([store.image(tile_id) for tile_id in planned.tile_ids]))
    named = [planned.tile_ids[column] for column in inputs.positive.tolist()]
    assert named == [example.positive_tile_id for example in planned.examples]
    assert (inputs.step, inputs.examples, inputs.with_images) == (0, 4, True)
    sizes = [store.size_px(tile_id) for tile_id in planned.tile_ids]
    assert inputs.visual_tokens == sum(encoder.tokens(*size) for size in sizes)


def test_equal_pictures_are_encoded_once(encoder: Encoder, reader_parts: Any, tmp_path: Path) -> None:
    """Tile 1 is a copy of tile 0, positive of another query: both queries name one row, neither is a miss."""
    store = reader_parts.store()
    tiles = [store.get(tile_id) for tile_id in reader_parts.tile_ids]
    copied = {"image": tiles[0].image, "image_sha256": tiles[0].image_sha256}
    copied |= {"width_px": tiles[0].width_px, "height_px": tiles[0].height_px}
    tiles[1] = type(tiles[1])(**(vars(tiles[1]) | copied))
    write_store(tmp_path / "tiles", tiles)
    ids = reader_parts.tile_ids
    examples = [TrainingExample("a", "A?", ids[0], (ids[2],)), TrainingExample("b", "B?", ids[1], (ids[3],))]
    plan = BatchPlan(examples, batch_size=2, seed=0)
    inputs = StepInputMaker(plan, TileInputs(encoder.batcher, TileStore.open(tmp_path / "tiles")), 0, 1)(0)
    assert inputs.tiles is not None and len(inputs.tiles) == 3 and inputs.tile_counts == [3]
    assert inputs.positive.tolist() == [0, 0] and not inputs.ignore.any()


def test_a_copy_of_a_known_positive_is_no_negative(encoder: Encoder, reader_parts: Any, tmp_path: Path) -> None:
    """The known positive itself isn't in the batch; its picture is, under the id of a hard negative."""
    store, ids = reader_parts.store(), reader_parts.tile_ids
    tiles = [store.get(tile_id) for tile_id in ids]
    tiles[4] = dataclasses.replace(tiles[2], tile_id=ids[4], page_id=tiles[4].page_id, url=tiles[4].url)
    write_store(tmp_path / "tiles", tiles)
    examples = [
        TrainingExample("a", "A?", ids[0], (ids[2], ids[3]), (ids[4],)),
        TrainingExample("b", "B?", ids[1], ()),
    ]
    plan = BatchPlan(examples, batch_size=2, seed=0)
    maker = StepInputMaker(plan, TileInputs(encoder.batcher, TileStore.open(tmp_path / "tiles")), 0, 1)
    planned, inputs = plan.batch(0), maker(0)
    marked = {
        (planned.examples[row].query_id, planned.tile_ids[column]) for row, column in inputs.ignore.nonzero().tolist()
    }
    assert inputs.tile_counts == [4] and marked == {("a", ids[2])}


def test_text_steps_hold_passages_under_the_tiles_instruction(encoder: Encoder, reader_parts: Any) -> None:

    pairs = [TextPair(f"p{n}", f"Where is {n % 5}?", f"Number {n} is there.", "page", "heading") for n in range(6)]
    texts = TextPlan(pa.Table.from_pylist([to_json(pair) for pair in pairs]), batch_size=6, seed=0)
    images = BatchPlan([TrainingExample("q", "Q?", reader_parts.tile_ids[0], ())], batch_size=2, seed=0)
    make = StepInputMaker(WarmupPlan(texts, 1, images), TileInputs(encoder.batcher, reader_parts.store()), 0, 1)
    inputs, planned = make(0), texts.batch(0)
    assert_same(inputs.queries, encoder.query_batch([pair.query for pair in planned.pairs]))
    assert_same(inputs.tiles, encoder.batcher.documents([pair.passage for pair in planned.pairs]))
    assert (inputs.with_images, inputs.visual_tokens, inputs.examples) == (False, 0, 6)
    same = [row for row, pair in enumerate(planned.pairs) if pair.query == "Where is 0?"]
    assert inputs.positive.tolist() == list(range(6)) and inputs.ignore.shape == (6, 6)
    assert inputs.ignore.nonzero().tolist() == [same, same[::-1]]
    assert make(1).with_images and make(1).step == 1 and make(1).visual_tokens > 0
    ranks = [StepInputMaker(make.plan, make.tiles, rank, 2)(1) for rank in range(2)]
    assert [rank.with_images for rank in ranks] == [True, True]  # one of them has neither query nor tile
    assert sorted((rank.queries is None, rank.tiles is None) for rank in ranks) == [(False, False), (True, True)]


def test_stacked_tiles_equal_tiles_batched_at_once(encoder: Encoder, reader_parts: Any) -> None:
    store, ids = reader_parts.store(), reader_parts.tile_ids
    at_once = encoder.tile_batch([store.image(tile_id) for tile_id in ids])
    assert_same(stack([encoder.tile_batch([store.image(tile_id)]) for tile_id in ids]), at_once)
    texts = [encoder.query_batch([text]) for text in ("One?", "A longer question, about what?")]
    assert_same(stack(texts), encoder.query_batch(["One?", "A longer question, about what?"]))


def test_cache_is_bounded_and_changes_nothing(encoder: Encoder, reader_parts: Any) -> None:
    store, ids = reader_parts.store(), reader_parts.tile_ids
    patches = encoder.tile_batch([store.image(ids[0])]).patches
    assert patches is not None
    cached, plain = TileInputs(encoder.batcher, store, int(3.5 * patches.nbytes)), TileInputs(encoder.batcher, store)
    for _ in range(2):
        assert_same(cached.batch(ids), plain.batch(ids))
    kept = [tile_id for tile_id in ids if cached.kept(tile_id) is not None]
    assert 1 <= len(kept) < len(ids) and not any(plain.kept(tile_id) for tile_id in ids)
    make = StepInputMaker(BatchPlan([TrainingExample("q", "Q?", kept[0], ids[5:])], batch_size=1, seed=0), cached, 0, 1)
    made = [tile_id for piece in make.pieces(make.task(0)) if piece.kind == "tiles" for tile_id in piece.items]
    assert kept[0] not in made and set(made) <= set(ids[5:])


def test_tile_inputs_pickle_small(encoder: Encoder, reader_parts: Any) -> None:
    """A loader process gets the batcher and the store's place; what the parent keeps stays there."""
    tiles = TileInputs(encoder.batcher, reader_parts.store(), 1 << 30)
    before = len(pickle.dumps(tiles))
    tiles.batch(reader_parts.tile_ids)
    assert len(pickle.dumps(tiles)) == before
    again: TileInputs = pickle.loads(pickle.dumps(tiles))
    piece = Piece("tiles", reader_parts.tile_ids[:2])
    for one, other in zip(tiles.make(piece), again.make(piece), strict=True):
        assert_same(one, other)


def test_a_picture_that_the_model_refuses_is_told_with_its_tile(
    encoder: Encoder, reader_parts: Any, tmp_path: Path
) -> None:
    store, (first, *_) = reader_parts.store(), reader_parts.tile_ids
    encoded = io.BytesIO()
    Image.new("RGB", (2, 1000)).save(encoded, "PNG")
    narrow = dataclasses.replace(store.get(first), image=encoded.getvalue(), width_px=2, height_px=1000)
    write_store(tmp_path / "tiles", [narrow])
    tiles = TileInputs(encoder.batcher, TileStore.open(tmp_path / "tiles"))
    with pytest.raises(InputError, match=rf"tiles: tile {first}: image of 2 x 1000 px: aspect ratio 500"):
        tiles.one(first)
