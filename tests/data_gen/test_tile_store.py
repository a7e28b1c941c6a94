"""The tile store: what goes in comes out, by id, with the same bytes each time, and readable by `datasets` alone."""

import dataclasses
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.configs.partial import reserve_space
from tilewright.data_gen.images import encode_png, image_sha256
from tilewright.data_gen.records import Block, Link, Tile, Word
from tilewright.data_gen.tile_store import TileStore, read_tiles, write_store, write_tiles
from tilewright.data_gen.tiles import tile_id


def make_tile(number: int, **changes: object) -> Tile:
    image = Image.linear_gradient("L").resize((48, 40)).rotate(number % 90).convert("RGB")
    page = f"{number:016x}"
    tile = Tile(
        tile_id=tile_id(page, number % 3, 0),
        page_id=page,
        url=f"https://example.com/{number}",
        title='Ünï "quoted" ../ 🙂 שלום',
        row=number % 3,
        column=0,
        x_px=0,
        y_px=1024 * (number % 3),
        width_px=48,
        height_px=40,
        image=encode_png(image),
        image_sha256=image_sha256(image),
        text="two\nlines",
        evidence_px={"infobox": 1, "table": 2, "list": 3, "paragraph": number},
        words=(Word("two", 0.1, 1 / 3, 2.0, 3.0, 0), Word("lines", -1.5, 0.0, 2.0, 3.0, -1)),
        blocks=(Block("table_row", "two", ("two", ""), ("", "Head"), "S", "C", True, 0.0, 1.0, 2.0, 3.0),),
        links=(Link("https://example.com/x", "two", 1.0, 2.0, 3.0, 4.0),) * (number % 2),
    )
    return dataclasses.replace(tile, **changes)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_round_trip_in_order(tmp_path: Path) -> None:
    tiles = [make_tile(number) for number in range(25)]
    assert write_store(tmp_path / "store", iter(tiles)) == 25
    for place in (tmp_path, tmp_path / "store"):
        store = TileStore.open(place)
        assert list(store) == tiles
        assert list(store.tile_ids) == [tile.tile_id for tile in tiles] == sorted(store.tile_ids)
    light = [dataclasses.replace(tile, image=b"") for tile in tiles]
    assert list(store.iterate_light()) == light
    assert [store.get(tile.tile_id) for tile in reversed(tiles)] == tiles[::-1]
    assert store.light(tiles[3].tile_id) == light[3]
    assert [store.size_px(tile.tile_id) for tile in tiles] == [(tile.width_px, tile.height_px) for tile in tiles]
    assert image_sha256(store.image(tiles[7].tile_id)) == tiles[7].image_sha256
    assert store.tile_ids[-1] == tiles[-1].tile_id and store.tile_ids[1:3] == [tile.tile_id for tile in tiles[1:3]]


def test_membership_and_unknown_ids(tmp_path: Path) -> None:
    write_store(tmp_path / "store", [make_tile(number) for number in (1, 5, 9)])
    store = TileStore.open(tmp_path)
    assert make_tile(5).tile_id in store and make_tile(5).tile_id in store.tile_ids
    for wrong in (
        "",
        "x",
        make_tile(4).tile_id,
        make_tile(5).tile_id[:-1],
        make_tile(5).tile_id + "0",
        "z" * 99,
        5,
        "é",
    ):
        assert wrong not in store
    for wrong_id in ("", make_tile(4).tile_id, "../../etc/passwd", "é"):
        with pytest.raises(InputError, match="no tile"):
            store.get(wrong_id)
        with pytest.raises(InputError, match="no tile"):
            store.image(wrong_id)


def test_many_shards_read_as_one(tmp_path: Path) -> None:
    tiles = [make_tile(number, image=bytes(6 << 20)) for number in range(9)]
    write_store(tmp_path / "store", tiles, shard_bytes=10 << 20)
    assert len(list((tmp_path / "store").glob("*.arrow"))) > 1
    store = TileStore.open(tmp_path)
    assert [tile.tile_id for tile in store] == [tile.tile_id for tile in tiles]
    assert store.get(tiles[-1].tile_id) == tiles[-1]


def test_bytes_depend_on_the_tiles_alone(tmp_path: Path) -> None:
    tiles = [make_tile(number) for number in range(9)]
    write_store(tmp_path / "here", tiles)
    write_store(tmp_path / "there", [pickle.loads(pickle.dumps(tile)) for tile in tiles])
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    write_store(tmp_path / "here", tiles[:3])  # replaces what was there
    assert len(TileStore.open(tmp_path / "here")) == 3
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_empty_store(tmp_path: Path) -> None:
    assert write_store(tmp_path / "store", []) == 0
    store = TileStore.open(tmp_path)
    assert (len(store), list(store), list(store.tile_ids), list(store.iterate_light())) == (0, [], [], [])
    assert "x" not in store
    with pytest.raises(InputError, match="0 tiles"):
        store.get("x")


def test_pickled_store_reads_the_same(tmp_path: Path) -> None:
    write_store(tmp_path / "store", [make_tile(1)])
    store = pickle.loads(pickle.dumps(TileStore.open(tmp_path)))
    assert store.get(make_tile(1).tile_id) == make_tile(1)


def test_datasets_alone_opens_it_with_pictures(tmp_path: Path) -> None:
    write_store(tmp_path / "store", [make_tile(number) for number in range(3)])
    table = datasets.load_from_disk(str(tmp_path / "store"))
    assert isinstance(table.features["image"], datasets.Image)
    assert table[2]["image"].size == (48, 40)
    assert table[2]["blocks"][0]["labels"] == ["", "Head"]


def test_transparent_tiles_are_white(tmp_path: Path) -> None:
    image = encode_png(Image.new("RGBA", (4, 4), (0, 0, 0, 0)))
    write_store(tmp_path / "store", [make_tile(1, image=image)])
    assert TileStore.open(tmp_path).image(make_tile(1).tile_id).getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("wrong", ["", "../x", "0123456789abcdef-0-0", "0123456789ABCDEF-0000-00", "a" * 40])
def test_ids_of_another_form_are_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InputError, match="tile_id"):
        write_store(tmp_path / "store", [make_tile(1, tile_id=wrong)])
    assert not (tmp_path / "store").exists()


def test_order_and_doubles_are_refused(tmp_path: Path) -> None:
    for tiles in ([make_tile(2), make_tile(1)], [make_tile(1), make_tile(1)]):
        with pytest.raises(InputError, match="ascending"):
            write_store(tmp_path / "store", tiles)
    with pytest.raises(InputError, match="evidence_px"):
        write_store(tmp_path / "store", [make_tile(1, evidence_px={"table": 1})])


def test_no_store_and_damaged_stores(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="wanted a tile store"):
        TileStore.open(tmp_path)
    write_store(tmp_path / "store", [make_tile(1), make_tile(2)])
    shard = tmp_path / "store" / "data-00000.arrow"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:200])
    with pytest.raises(InputError, match="readable tile store"):
        TileStore.open(tmp_path)
    shard.write_bytes(whole)
    write_store(tmp_path / "other", [make_tile(1)])
    (tmp_path / "store" / "tile_ids.npy").write_bytes((tmp_path / "other" / "tile_ids.npy").read_bytes())
    with pytest.raises(InputError, match="1 ids for 2 tiles"):
        TileStore.open(tmp_path)


@pytest.mark.parametrize(
    "change",
    [{"rows": 7}, {"pages": [7]}, {"ids": {}}, {"ids": "../x.npy"}, {"next_number": float("inf")}, {"shards": 3}],
)
def test_hostile_states_are_named(tmp_path: Path, change: dict[str, Any]) -> None:
    write_store(tmp_path / "store", [])
    path = tmp_path / "store" / "state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps(state | {"tilewright": state["tilewright"] | change}))
    with pytest.raises(InputError, match="not a readable tile store"):
        TileStore.open(tmp_path)
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="not a readable tile store"):
        TileStore.open(tmp_path)


def test_a_mapped_file_has_its_place_on_the_disk(tmp_path: Path) -> None:
    """A hole in it would be a SIGBUS once the disk is full."""
    path = tmp_path / "x"
    with path.open("wb") as file:
        file.truncate(1 << 20)
    assert path.stat().st_blocks * 512 < 1 << 20
    reserve_space(path)
    assert path.stat().st_blocks * 512 >= 1 << 20 and path.read_bytes() == bytes(1 << 20)


def test_a_broken_image_names_its_tile(tmp_path: Path) -> None:
    write_store(tmp_path / "store", [make_tile(1, image=b"junk")])
    with pytest.raises(InputError, match=make_tile(1).tile_id):
        TileStore.open(tmp_path).image(make_tile(1).tile_id)


def test_working_files_round_trip(tmp_path: Path) -> None:
    tiles = [make_tile(number) for number in range(4)]
    for kept in (tiles, []):
        write_tiles(tmp_path / "page.arrow", kept)
        assert list(read_tiles(tmp_path / "page.arrow")) == kept


def test_opening_loads_no_images(tmp_path: Path) -> None:
    """Peak memory of opening and reading one tile stays far below the store's size (own process: a clean peak)."""
    big = bytes(8 << 20)
    write_store(tmp_path / "store", (make_tile(number, image=big) for number in range(40)))
    program = """
import json, resource, sys
from pathlib import Path
from typing import Any
from tilewright.data_gen.tile_store import TileStore
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
store = TileStore.open(Path(sys.argv[1]))
light = [tile.title for tile in store.iterate_light()]
assert len(store.get(store.tile_ids[20]).image) == 8 << 20
print(json.dumps([len(light), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    count, grown_mib = json.loads(done.stdout)
    assert count == 40
    assert grown_mib < 160  # 320 MiB of images
