"""The plan of embed_tiles: every picture in one block, every tile in one part, whatever is at hand."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mining.embed_corpus import tile

from tilewright.data_gen.images import rgb_sha256
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.mining.embed_plan import Plan, make_plan, usable
from tilewright.mining.vector_store import VectorStore
from tilewright.mining.vector_writer import VectorWriter, write_vector_store

SPACE = "cd" * 32


def _hash(picture: int) -> str:
    return rgb_sha256(np.full((1, 1, 3), picture, np.uint8))


def _store(folder: Path, pictures: list[int]) -> TileStore:
    """Tiles that show ``pictures``: of another width each, and not in order of size."""
    bare = tile(0, 0)
    tiles = []
    for number, picture in enumerate(pictures):
        page_id = f"{number:016x}"
        width_px = 10 + 7 * picture % 31
        values = {"tile_id": f"{page_id}-0000-00", "page_id": page_id, "width_px": width_px, "height_px": 1}
        tiles.append(dataclasses.replace(bare, image_sha256=_hash(picture), **values))  # type: ignore[arg-type]
    write_store(folder, tiles)
    return TileStore.open(folder)


def _known(folder: Path, pictures: list[int]) -> VectorStore:
    vectors = np.array(pictures, np.float32)[:, None].repeat(2, 1)
    hashes = list(map(_hash, pictures))
    return write_vector_store(
        folder, [f"t{n}" for n in range(len(pictures))], hashes, vectors, encoder_hash=SPACE, shard_bytes=24
    )


@settings(max_examples=25, deadline=None)
@given(
    pictures=st.lists(st.integers(0, 40), min_size=1, max_size=60),
    known=st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=3),
    block_tiles=st.integers(1, 5),
    window_blocks=st.integers(1, 4),
    parts=st.integers(1, 4),
    ranks=st.integers(1, 3),
)
def test_every_picture_once_and_every_tile_in_one_part(
    tmp_path_factory: pytest.TempPathFactory,
    pictures: list[int],
    known: list[list[int]],
    block_tiles: int,
    window_blocks: int,
    parts: int,
    ranks: int,
) -> None:
    folder = tmp_path_factory.mktemp("plan")
    store = _store(folder / "tiles", pictures)
    stores = [_known(folder / f"known{number}", some) for number, some in enumerate(known)]
    plan = make_plan(
        store, lambda width, height: width * height, stores, block_tiles=block_tiles, window_blocks=window_blocks
    )
    at_hand = {picture for some in known for picture in some}
    fresh = list(dict.fromkeys(picture for picture in pictures if picture not in at_hand))
    _check_queue(plan, store, pictures, fresh, block_tiles * window_blocks)
    _check_known(plan, stores, pictures, at_hand)
    everything = np.concatenate([plan.rows((part, parts)) for part in range(parts)])
    assert sorted(everything.tolist()) == list(range(len(pictures)))
    sums = [plan.counts(plan.rows((part, parts))) for part in range(parts)]
    whole = plan.counts(plan.rows((0, 1)))
    assert {name: sum(each[name] for each in sums) for name in whole} == whole
    assert (whole["embedded"], whole["reused"]) == (len(fresh), len(set(pictures) & at_hand))
    of_all = [b for part in range(parts) for rank in range(ranks) for b in plan.blocks((part, parts), rank, ranks)]
    assert sorted(of_all) == list(range(-(-len(fresh) // block_tiles)))
    for part in range(parts):
        own = {b for rank in range(ranks) for b in plan.blocks((part, parts), rank, ranks)}
        places = plan.source[plan.picture[plan.rows((part, parts))]]
        assert set((places[places >= 0] // block_tiles).tolist()) == own, "a part's tiles need its blocks, no others"


def _check_queue(plan: Plan, store: TileStore, pictures: list[int], fresh: list[int], window: int) -> None:
    """Windows hold the pictures in the order of tiles; in a window they go by size."""
    assert plan.tokens.tolist() == [10 + 7 * picture % 31 for picture in pictures]
    queued = [pictures[row] for row in plan.queue.tolist()]
    for start in range(0, len(fresh), window):
        wanted = fresh[start : start + window]
        assert queued[start : start + window] == sorted(wanted, key=lambda picture: 10 + 7 * picture % 31)
    assert sorted(queued) == sorted(fresh)
    numbers = plan.blocks((0, 1))
    blocks = [plan.block(store, number) for number in numbers]
    assert [tile_id for block in blocks for tile_id in block.tile_ids] == [store.tile_ids[row] for row in plan.queue]
    assert all(plan.source[row] == place for place, row in enumerate(plan.queue.tolist()))


def _check_known(plan: Plan, stores: list[VectorStore], pictures: list[int], at_hand: set[int]) -> None:
    """A tile's vector at hand is its picture's, from the first folder that has it."""
    held = [float(value) for store in stores for value in store.rows(np.arange(len(store)))[:, 0]]
    for row, picture in enumerate(pictures):
        assert plan.picture[row] == pictures.index(picture)
        source = int(plan.source[plan.picture[row]])
        assert (source < 0) == (picture in at_hand)
        if source < 0:
            first = next(
                number for number, store in enumerate(stores) if float(picture) in store.rows(range(len(store)))
            )
            low = sum(len(store) for store in stores[:first])
            assert held[-1 - source] == picture and low <= -1 - source < low + len(stores[first])


def test_ranks_get_about_as_much_to_do(tmp_path: Path) -> None:
    store = _store(tmp_path / "tiles", list(range(40)))
    plan = make_plan(store, lambda width, height: width, [], block_tiles=1, window_blocks=4)
    loads = [sum(sum(plan.block(store, b).tokens) for b in plan.blocks((0, 1), rank, 4)) for rank in range(4)]
    assert max(loads) <= 1.15 * min(loads)


def test_only_vectors_of_the_same_space_and_no_coarser(tmp_path: Path) -> None:
    for name, dtype, model_dtype in (("a", "float32", "float32"), ("b", "float16", "float32"), ("c", "float32", "x")):
        (tmp_path / name).mkdir()
        writer = VectorWriter(
            tmp_path / name, tiles=0, dimension=2, dtype=dtype, encoder_hash=SPACE, model_dtype=model_dtype
        )
        writer.finish([])
    folders = [tmp_path / name for name in "abc"]

    def names(encoder_hash: str, dtype: str, model_dtype: str = "float32") -> str:
        return "".join(store.folder.name for store in usable(folders, encoder_hash, 2, dtype, model_dtype))

    assert names(SPACE, "float32") == "a"
    assert names(SPACE, "float16") == "ab"
    assert names("ef" * 32, "float32") == names(SPACE, "float32", "bfloat16") == ""
