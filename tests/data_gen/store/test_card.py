"""The card has the head that `datasets` and a hub read; the store converts to Parquet with its pictures."""

from collections.abc import Callable
from pathlib import Path

import datasets
import pytest
from datasets.info import DatasetInfosDict
from huggingface_hub import DatasetCard

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.records import Tile
from tilewright.data_gen.store.card import dataset_card, write_card
from tilewright.data_gen.store.rows import tile_features
from tilewright.data_gen.tile_store import TileStore, write_store


@pytest.fixture
def tiles(make_page: Callable[..., list[Tile]]) -> list[Tile]:
    pages = [make_page(f"Page {number}", height_px=100, width_px=50) for number in range(3)]
    return sorted((tile for page in pages for tile in page), key=lambda tile: tile.tile_id)


def test_the_head_is_read_by_a_hub_and_by_datasets(tmp_path: Path, tiles: list[Tile]) -> None:
    write_store(tmp_path / "store", tiles)
    path = write_card(tmp_path, name="My\n tiles: {x}", license_id="cc-by-sa-4.0")
    card = DatasetCard.load(path)
    assert card.data.pretty_name == "My tiles: {x}" and card.data.license == "cc-by-sa-4.0"
    assert card.data.size_categories == ["n<1K"]
    info = DatasetInfosDict.from_dataset_card_data(card.data)["default"]
    assert info.features == tile_features() == datasets.load_from_disk(str(tmp_path / "store")).features
    assert f"{len(tiles)} screenshot tiles of 3 web pages" in card.text and "example.com (3)" in card.text
    assert "without their picture" not in card.text
    with pytest.raises(InputError, match="exists"):
        write_card(tmp_path, name="x")
    assert list(TileStore.open(tmp_path)) == tiles


def test_left_out_pictures_are_said(tmp_path: Path, tiles: list[Tile]) -> None:
    write_store(tmp_path / "store", tiles, keep_images=False)
    assert f"{len(tiles)} tiles are here without" in dataset_card(TileStore.open(tmp_path), name="x")


@pytest.mark.parametrize("keep_images", [True, False])
def test_parquet_and_back(tmp_path: Path, tiles: list[Tile], keep_images: bool) -> None:
    """What push_to_hub writes: Parquet with the pictures inside."""
    write_store(tmp_path / "store", tiles, keep_images=keep_images)
    datasets.load_from_disk(str(tmp_path / "store")).to_parquet(tmp_path / "tiles.parquet")
    back = datasets.Dataset.from_parquet(str(tmp_path / "tiles.parquet"), cache_dir=str(tmp_path / "cache"))
    assert back.features == tile_features() and back["tile_id"] == [tile.tile_id for tile in tiles]
    for row, tile in zip(back, tiles, strict=True):
        assert row["text"] == tile.text and [word["text"] for word in row["words"]] == [w.text for w in tile.words]
        assert row["image"] is None if not keep_images else image_sha256(row["image"]) == tile.image_sha256
    encoded = back.cast_column("image", datasets.Image(decode=False))
    assert not keep_images or [row["image"]["bytes"] for row in encoded] == [tile.image for tile in tiles]
