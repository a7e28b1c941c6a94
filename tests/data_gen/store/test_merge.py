"""Parts merged equal one run, byte for byte; a page in two parts is refused."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import Page, Tile, read_jsonl, write_jsonl
from tilewright.data_gen.store import edit
from tilewright.data_gen.store.merge import merge
from tilewright.data_gen.tile_store import TileStore

SHARD_BYTES = 20_000


@pytest.fixture
def made(make_page: Callable[..., list[Tile]], small_batches: None) -> list[list[Tile]]:
    return [make_page(f"Page {number}", height_px=(number % 4 + 1) * 40) for number in range(14)]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_parts_equal_one_run(
    tmp_path: Path, made: list[list[Tile]], write_corpus: Callable[..., TileStore], parts: int
) -> None:
    write_corpus(tmp_path / "one", made, shard_bytes=SHARD_BYTES)
    shuffled = random.Random(parts).sample(made, len(made))
    folders = [tmp_path / f"part{number}" for number in range(parts)]
    for number, folder in enumerate(folders):
        write_corpus(folder, shuffled[number::parts], shard_bytes=9_000)
    pages = read_jsonl(folders[0] / "pages.jsonl", Page)
    write_jsonl(folders[0] / "pages.jsonl", reversed(pages))  # a run whose records aren't in order
    count = merge(folders[::-1], tmp_path / "merged", shard_bytes=SHARD_BYTES)
    assert count == sum(map(len, made)) and contents(tmp_path / "merged") == contents(tmp_path / "one")
    assert len(list((tmp_path / "one" / "store").glob("*.arrow"))) > 3


def test_an_edited_store_is_written_anew(
    tmp_path: Path, made: list[list[Tile]], write_corpus: Callable[..., TileStore]
) -> None:
    write_corpus(tmp_path / "one", made[:9], shard_bytes=SHARD_BYTES)
    write_corpus(tmp_path / "edited", made[3:12], shard_bytes=SHARD_BYTES)
    rest = sorted((tile for tiles in made[:3] for tile in tiles), key=lambda tile: tile.tile_id)
    records = read_jsonl(tmp_path / "one" / "pages.jsonl", Page)
    edit.add(tmp_path / "edited", rest, records)
    edit.remove(tmp_path / "edited", [tiles[0].page_id for tiles in made[9:12]])
    merge([tmp_path / "edited"], tmp_path / "merged", shard_bytes=SHARD_BYTES)
    assert contents(tmp_path / "merged") == contents(tmp_path / "one")


def test_what_cannot_be_merged(tmp_path: Path, made: list[list[Tile]], write_corpus: Callable[..., TileStore]) -> None:
    write_corpus(tmp_path / "a", made[:4])
    write_corpus(tmp_path / "b", made[3:6])
    with pytest.raises(InputError, match=f"{made[3][0].page_id} is in .*wanted each page once"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "b" / "pages.jsonl").unlink()
    with pytest.raises(InputError, match=r"1 of 2 folders have a pages\.jsonl"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    with pytest.raises(InputError, match="exists"):
        merge([tmp_path / "a"], tmp_path / "b")
    with pytest.raises(InputError, match="at least one"):
        merge([], tmp_path / "out")
    write_corpus(tmp_path / "c", made[6:8])
    doubled = read_jsonl(tmp_path / "c" / "pages.jsonl", Page)
    write_jsonl(tmp_path / "c" / "pages.jsonl", [*doubled, *read_jsonl(tmp_path / "a" / "pages.jsonl", Page)])
    with pytest.raises(InputError, match="stands twice"):
        merge([tmp_path / "a", tmp_path / "c"], tmp_path / "out")
