"""A sound store has no problems; every planted fault is found, named by its tile, and none hides another."""

import dataclasses
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import encode_png
from tilewright.data_gen.records import Page, Tile, Word, read_jsonl, write_jsonl
from tilewright.data_gen.store import edit
from tilewright.data_gen.store.image_folder import export_images
from tilewright.data_gen.store.verify import verify
from tilewright.data_gen.tile_store import TileStore, write_store

MakePage = Callable[..., list[Tile]]
WriteCorpus = Callable[..., TileStore]


@pytest.fixture
def made(make_page: MakePage, small_batches: None) -> list[list[Tile]]:
    return [make_page(f"Page {number}", height_px=90, width_px=(number + 1) * 30) for number in range(5)]


def found(folder: Path, **options: Any) -> dict[str, str]:
    return {problem.where: problem.what for problem in verify(folder, **options).problems}


def test_a_sound_store(tmp_path: Path, made: list[list[Tile]], write_corpus: WriteCorpus) -> None:
    write_corpus(tmp_path, made, shard_bytes=20_000)
    report = verify(tmp_path)
    assert report.problems == []
    count = sum(map(len, made))
    assert (report.counts["tiles"], report.counts["pages"], report.counts["problems"]) == (count, 5, 0)
    edit.remove(tmp_path, [made[0][0].page_id])
    edit.add(tmp_path, made[0])
    assert verify(tmp_path).problems == [] and verify(tmp_path / "store").problems == []


def test_every_fault_of_a_tile_is_named(tmp_path: Path, made: list[list[Tile]], write_corpus: WriteCorpus) -> None:
    bomb = encode_png(Image.new("RGB", (1, 1)))
    head = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    crc = struct.pack(">I", zlib.crc32(b"IHDR" + head))
    bomb = bomb[:16] + head + crc + bomb[33:]
    changes: list[dict[str, Any]] = [
        {"image": b"junk"},
        {"image": made[0][0].image[:400]},
        {"image": bomb},
        {"image_sha256": "0" * 64},
        {"width_px": 39},
        {"row": 7},
    ]
    tiles = sorted((tile for page in made for tile in page), key=lambda tile: tile.tile_id)
    write_corpus(tmp_path, made)
    for place, change in enumerate(changes):
        tiles[place] = dataclasses.replace(tiles[place], **change)
    write_store(tmp_path / "store", tiles)
    problems = found(tmp_path)
    for place in range(len(changes)):
        assert tiles[place].tile_id in problems, changes[place]
    assert {tile.tile_id for tile in tiles[len(changes) :]} & problems.keys() == set()
    assert tiles[0].tile_id not in found(tmp_path, images=False)


def test_a_row_of_another_page_is_named(tmp_path: Path, made: list[list[Tile]]) -> None:
    """No writer takes one: it is planted in the file, where two rows' page_ids stand side by side."""
    tiles = sorted((tile for page in made for tile in page), key=lambda tile: tile.tile_id)
    with pytest.raises(InputError, match="wanted the page_id that its id begins with"):
        write_store(tmp_path / "store", [dataclasses.replace(tiles[0], page_id="0" * 16), *tiles[1:]])
    write_store(tmp_path / "store", tiles)
    shard = tmp_path / "store" / "data-00000.arrow"
    data, pair = shard.read_bytes(), 2 * made[4][0].page_id.encode()
    assert pair in data
    shard.write_bytes(data.replace(pair, b"0" * 16 + pair[16:], 1))
    assert any("of page 0000000000000000" in what for what in found(tmp_path).values())
    with pytest.raises(InputError, match="wanted the page_id that its id begins with"):
        export_images(TileStore.open(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_records_and_tiles_disagree(tmp_path: Path, made: list[list[Tile]], write_corpus: WriteCorpus) -> None:
    write_corpus(tmp_path, made)
    pages = read_jsonl(tmp_path / "pages.jsonl", Page)
    taller, fewer = dataclasses.replace(pages[0], height_px=91), dataclasses.replace(pages[1], tile_count=1)
    gone = dataclasses.replace(pages[2], page_id="1" * 16)
    write_jsonl(tmp_path / "pages.jsonl", [taller, fewer, *pages[2:], gone])
    problems = found(tmp_path)
    assert "cover" in problems[taller.page_id] and "record says" in problems[fewer.page_id]
    assert "the store has none" in problems["1" * 16] and len(problems) == 3


def test_boxes_outside_are_counted_only(tmp_path: Path, made: list[list[Tile]]) -> None:
    words = (Word("in", 0.0, 0.0, 30.0, 10.0, 0), Word("out", -0.5, 0.0, 1.0, 1.0, 0), Word("", 29.0, 0.0, 2.0, 1.0, 0))
    tiles = sorted((dataclasses.replace(tile, words=words) for tile in made[0]), key=lambda tile: tile.tile_id)
    write_store(tmp_path / "store", tiles)
    report = verify(tmp_path)
    assert report.problems == [] and report.counts["boxes_outside_tiles"] == 2 * len(tiles)


def test_left_out_images_are_counted(tmp_path: Path, made: list[list[Tile]]) -> None:
    write_store(tmp_path / "store", made[0], keep_images=False)
    report = verify(tmp_path)
    assert report.problems == [] and report.counts["images_left_out"] == len(made[0])


def test_damaged_files(tmp_path: Path, made: list[list[Tile]], write_corpus: WriteCorpus) -> None:
    store = write_corpus(tmp_path, made)
    ids = np.load(tmp_path / "store" / "tile_ids.npy")
    np.save(tmp_path / "store" / "tile_ids.npy", np.sort(np.append(ids[1:], np.bytes_("f" * 16 + "-0000-00"))))
    problems = found(tmp_path)
    assert len(problems) == len(ids) and "stands where" in problems[store.tile_ids[0]]
    np.save(tmp_path / "store" / "tile_ids.npy", ids)
    shard = tmp_path / "store" / "data-00000.arrow"
    data = bytearray(shard.read_bytes())
    title = data.index(b"Page 3")
    data[title : title + 2] = b"\xff\xfe"  # not UTF-8
    shard.write_bytes(bytes(data))
    assert list(found(tmp_path)) == ["data-00000.arrow"]
