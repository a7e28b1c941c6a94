"""Pages added, replaced and removed: other shards stay as they are, and everything reads as if written anew."""

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.records import Page, Tile, read_jsonl
from tilewright.data_gen.store import edit
from tilewright.data_gen.store.rows import tile_schema
from tilewright.data_gen.tile_store import TileStore, write_store

SHARD_BYTES = 20_000
MakePage = Callable[..., list[Tile]]
WriteCorpus = Callable[..., TileStore]


@pytest.fixture
def made(make_page: MakePage, small_batches: None) -> list[list[Tile]]:
    """Twelve pages in order of id."""
    pages = [make_page(f"Page {number}", height_px=(number % 4 + 1) * 40) for number in range(12)]
    return sorted(pages, key=lambda tiles: tiles[0].page_id)


def flat(pages: list[list[Tile]]) -> list[Tile]:
    return sorted((tile for tiles in pages for tile in tiles), key=lambda tile: tile.tile_id)


def shards_of(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.glob("store/*.arrow")}


def check_reads_as(folder: Path, pages: list[list[Tile]]) -> None:
    """The store gives just these tiles: in order, by id, to `datasets`; pages.jsonl names their pages."""
    tiles, store = flat(pages), TileStore.open(folder)
    assert list(store) == tiles
    assert list(store.tile_ids) == [tile.tile_id for tile in tiles] and len(store) == len(tiles)
    for tile in random.Random(0).sample(tiles, min(9, len(tiles))):
        assert store.get(tile.tile_id) == tile and tile.tile_id in store
        assert image_sha256(store.image(tile.tile_id)) == tile.image_sha256
    loaded = datasets.load_from_disk(str(folder / "store"))
    assert sorted(loaded["tile_id"]) == [tile.tile_id for tile in tiles]
    records = read_jsonl(folder / "pages.jsonl", Page)
    assert {page.page_id: page.tile_count for page in records} == {page[0].page_id: len(page) for page in pages}
    assert [page.page_id for page in records] == sorted(page.page_id for page in records)


def test_edits_leave_other_shards_alone(tmp_path: Path, made: list[list[Tile]], write_corpus: WriteCorpus) -> None:
    first, rest = made[::2], made[1::2]
    write_corpus(tmp_path, first, shard_bytes=SHARD_BYTES)
    before = shards_of(tmp_path)
    assert len(before) > 2
    reader = TileStore.open(tmp_path)
    assert reader.get(first[0][0].tile_id) == first[0][0]

    edited = edit.add(tmp_path, flat(rest), shard_bytes=SHARD_BYTES)
    assert (edited.pages_added, edited.tiles_added, edited.tiles_removed) == (6, len(flat(rest)), 0)
    check_reads_as(tmp_path, made)
    assert before.items() <= shards_of(tmp_path).items()

    before = shards_of(tmp_path)
    gone = made[4]
    edited = edit.remove(tmp_path, [gone[0].page_id])
    assert (edited.pages_removed, edited.tiles_removed) == (1, len(gone))
    check_reads_as(tmp_path, [tiles for tiles in made if tiles is not gone])
    touched = before.keys() - shards_of(tmp_path).keys()
    assert 1 <= len(touched) <= 3 < len(before) and edited.shards_written <= len(touched)
    assert reader.get(first[0][0].tile_id) == first[0][0]  # a store opened before reads on


def test_replace(tmp_path: Path, made: list[list[Tile]], make_page: MakePage, write_corpus: WriteCorpus) -> None:
    write_corpus(tmp_path, made, shard_bytes=SHARD_BYTES)
    fresh = [make_page(made[place][0].title, height_px=200, shade=9) for place in (0, 7)]
    edited = edit.replace_pages(tmp_path, flat(fresh))
    assert edited.tiles_added == 10 and edited.tiles_removed == len(made[0]) + len(made[7])
    check_reads_as(tmp_path, [*made[1:7], *made[8:], *fresh])


def test_same_edits_same_bytes(tmp_path: Path, made: list[list[Tile]], write_corpus: WriteCorpus) -> None:
    for name in ("a", "b"):
        write_corpus(tmp_path / name, made[:8], shard_bytes=SHARD_BYTES)
        edit.add(tmp_path / name, flat(made[8:]))
        edit.remove(tmp_path / name, [made[2][0].page_id, made[9][0].page_id])
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.*")} for name in ("a", "b")]
    assert files[0] == files[1]


def test_to_nothing_and_back(tmp_path: Path, made: list[list[Tile]], write_corpus: WriteCorpus) -> None:
    write_corpus(tmp_path, made)
    edit.remove(tmp_path, [tiles[0].page_id for tiles in made])
    check_reads_as(tmp_path, [])
    edit.add(tmp_path, flat(made[:3]))
    check_reads_as(tmp_path, made[:3])


def test_random_edits_equal_a_dictionary(
    tmp_path: Path, made: list[list[Tile]], make_page: MakePage, write_corpus: WriteCorpus
) -> None:
    draw = random.Random(1)
    write_corpus(tmp_path, made[:6], shard_bytes=SHARD_BYTES)
    live = {tiles[0].page_id: tiles for tiles in made[:6]}
    for step in range(12):
        absent = [tiles for tiles in made if tiles[0].page_id not in live]
        some = draw.sample(sorted(live), min(2, len(live)))
        if step % 3 == 0 and absent:
            chosen = draw.sample(absent, min(3, len(absent)))
            edit.add(tmp_path, flat(chosen), shard_bytes=SHARD_BYTES)
            live |= {tiles[0].page_id: tiles for tiles in chosen}
        elif step % 3 == 1:
            fresh = [make_page(live[page_id][0].title, height_px=draw.randint(1, 200), shade=step) for page_id in some]
            edit.replace_pages(tmp_path, flat(fresh), shard_bytes=SHARD_BYTES)
            live |= {tiles[0].page_id: tiles for tiles in fresh}
        else:
            edit.remove(tmp_path, some)
            live = {page_id: tiles for page_id, tiles in live.items() if page_id not in some}
        check_reads_as(tmp_path, list(live.values()))
    write_store(tmp_path / "anew", TileStore.open(tmp_path), SHARD_BYTES)
    write_store(tmp_path / "expected", flat(list(live.values())), SHARD_BYTES)
    for path in (tmp_path / "expected").iterdir():
        assert (tmp_path / "anew" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_killed_anywhere(tmp_path: Path, made: list[list[Tile]], write_corpus: WriteCorpus) -> None:
    """Whatever file operation a kill precedes: the store is the one before or the one after, and goes on from there."""
    tile_schema()  # before forking
    old, fresh = made[:8], [*made[8:], made[2][:1]]
    write_corpus(tmp_path / "base", old, shard_bytes=SHARD_BYTES)
    edit.remove(tmp_path / "base", [made[2][0].page_id])
    shutil.copytree(tmp_path / "base", tmp_path / "whole")
    edit.add(tmp_path / "whole", flat(fresh))
    outcomes, after = set(), 0
    while "finished" not in outcomes:
        folder = tmp_path / str(after)
        shutil.copytree(tmp_path / "base", folder)
        killed = _killed(lambda folder=folder: edit.add(folder, flat(fresh)), after)  # type: ignore[misc]
        edited = len(TileStore.open(folder)) > len(flat([*old[:2], *old[3:]]))
        assert list(TileStore.open(folder)) == flat([*old[:2], *old[3:], *(fresh if edited else [])])
        outcomes.add("finished" if not killed else "after" if edited else "before")
        if edited:
            edit.finish_killed_edit(folder / "store")
        else:
            edit.add(folder, flat(fresh))
        check_reads_as(folder, [*old[:2], *old[3:], *fresh])
        assert _contents(folder) == _contents(tmp_path / "whole"), after
        after += 1
    assert outcomes == {"before", "after", "finished"}


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _killed(work: Callable[[], object], after: int) -> bool:
    process = os.fork()
    if process == 0:
        left = [after]

        def kill(event: str, _: Any) -> None:
            if event in {"os.rename", "os.remove", "open"}:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(process, 0)[1] != 0


def test_what_cannot_be_edited(tmp_path: Path, made: list[list[Tile]], write_corpus: WriteCorpus) -> None:
    write_corpus(tmp_path, made[:4])
    before = _contents(tmp_path)
    with pytest.raises(InputError, match="is there already"):
        edit.add(tmp_path, flat(made[3:5]))
    with pytest.raises(InputError, match="has no page"):
        edit.replace_pages(tmp_path, flat(made[3:5]))
    for wrong in (made[5][0].page_id, "", "../x", "z" * 16):
        with pytest.raises(InputError, match="has no page"):
            edit.remove(tmp_path, [made[0][0].page_id, wrong])
    with pytest.raises(InputError, match="ascending"):
        edit.add(tmp_path, flat(made[5:7])[::-1])
    assert len(TileStore.open(tmp_path)) == len(flat(made[:4]))
    edit.finish_killed_edit(tmp_path / "store")
    assert {name: data for name, data in _contents(tmp_path).items() if not name.endswith(".lock")} == before


def test_a_stages_result_is_detached_first(tmp_path: Path, made: list[list[Tile]], write_corpus: WriteCorpus) -> None:
    write_corpus(tmp_path, made[:3])
    names = ("identity", "request", "counts", "outputs", "sizes", "provenance")
    manifest = "{" + ", ".join(f'"{name}": {{}}' for name in names) + "}"
    (tmp_path / "manifest.json").write_text(manifest)
    for folder in (tmp_path, tmp_path / "store"):
        with pytest.raises(InputError, match="result of a stage"):
            edit.remove(folder, [made[0][0].page_id])
    with pytest.raises(InputError, match="has no page"), edit.detached(tmp_path):
        edit.remove(tmp_path, ["0" * 16])
    assert (tmp_path / "manifest.json").read_text() == manifest
    with edit.detached(tmp_path):
        edit.remove(tmp_path, [made[0][0].page_id])
    assert (tmp_path / edit.OLD_MANIFEST).read_text() == manifest and not (tmp_path / "manifest.json").exists()
    check_reads_as(tmp_path, made[1:3])


def test_records_of_added_pages(tmp_path: Path, made: list[list[Tile]], write_corpus: WriteCorpus) -> None:
    write_corpus(tmp_path, made[:1])
    page_id = made[1][0].page_id
    edit.add(tmp_path, made[1], [Page(page_id, "u", "told", "", "s", 40, 40, True, len(made[1]))])
    edit.add(tmp_path, made[2])
    found = {page.page_id: page for page in read_jsonl(tmp_path / "pages.jsonl", Page)}
    assert found[page_id].title == "told"
    other = found[made[2][0].page_id]
    height_px = made[2][-1].y_px + made[2][-1].height_px
    assert (other.width_px, other.height_px, other.complete) == (40, height_px, False)
