"""Pages finished in any order, failing, coming late, killed at any file operation: one and the same store."""

import os
import random
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import Tile
from tilewright.data_gen.store.rows import tile_schema
from tilewright.data_gen.store.writer import StoreWriter
from tilewright.data_gen.tile_store import TileStore, write_store, write_tiles

SHARD_BYTES = 20_000
EVENTS = {"os.rename", "os.remove", "open"}
Pages = dict[str, list[Tile]]


@pytest.fixture
def pages(make_page: Callable[..., list[Tile]], small_batches: None) -> Pages:
    """Twelve pages, two of them without tiles, one larger than a shard."""
    made = [make_page(f"Page {number}", height_px=(number % 4 + 1) * 40) for number in range(11)]
    made.append(make_page("Long", height_px=800))
    found = {tiles[0].page_id: tiles for tiles in made}
    return found | {"5" * 16: [], "f" * 16: []}


@pytest.fixture
def expected(tmp_path: Path, pages: Pages) -> dict[str, bytes]:
    return store_of(tmp_path / "expected", pages)


def store_of(folder: Path, pages: Pages) -> dict[str, bytes]:
    write_store(folder, (tile for page_id in sorted(pages) for tile in pages[page_id]), SHARD_BYTES)
    return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Run:
    """A stage that writes pages in some order and keeps a journal of them, as render_tiles does."""

    def __init__(self, folder: Path, pages: Pages) -> None:
        self.folder, self.pages = folder, pages
        self.work, self.journal = folder / "work", folder / "journal"
        self.work.mkdir(parents=True, exist_ok=True)
        self.journal.mkdir(exist_ok=True)

    def tell(self, writer: StoreWriter, page_id: str) -> None:
        (writer.finish_page if self.pages[page_id] else writer.skip_page)(page_id)

    def go(self, order: Sequence[str], failing: Sequence[str] = ()) -> int:
        writer = StoreWriter(self.folder / "store", self.work, list(self.pages), SHARD_BYTES)
        done = {path.name for path in self.journal.iterdir()}
        for page_id in sorted(done):
            self.tell(writer, page_id)
        for page_id in (page_id for page_id in order if page_id not in done):
            if page_id in failing:
                writer.skip_page(page_id)
            else:
                write_tiles(self.work / f"{page_id}.arrow", self.pages[page_id])
                (self.journal / page_id).touch()
                self.tell(writer, page_id)
        return writer.close()

    def go_and_die(self, order: Sequence[str], failing: Sequence[str], after: int) -> bool:
        """``go`` in a process that is killed at its ``after``-th file operation; whether it was."""
        process = os.fork()
        if process == 0:
            left = [after]

            def kill(event: str, _: Any) -> None:
                left[0] -= event in EVENTS
                if event in EVENTS and left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                sys.addaudithook(kill)
                self.go(order, failing)
            except BaseException:  # noqa: BLE001 -- never back into pytest
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        status = os.waitpid(process, 0)[1]
        assert status in (0, signal.SIGKILL)
        return status != 0


@pytest.mark.parametrize("seed", range(3))
def test_any_order_gives_the_bytes_of_write_store(
    tmp_path: Path, pages: Pages, expected: dict[str, bytes], seed: int
) -> None:
    run = Run(tmp_path, pages)
    order = random.Random(seed).sample(sorted(pages), len(pages))
    assert run.go(order) == sum(map(len, pages.values()))
    assert contents(run.folder / "store") == expected and len([name for name in expected if "arrow" in name]) > 3
    assert list(TileStore.open(tmp_path)) == [tile for page_id in sorted(pages) for tile in pages[page_id]]
    assert not list(run.work.glob("*.arrow"))


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_killed_anywhere_and_resumed(tmp_path: Path, pages: Pages, expected: dict[str, bytes]) -> None:
    """Killed at every second file operation of a run; each time another order and other pages that fail at first."""
    tile_schema()  # before forking
    killed, after = 0, 0
    while True:
        draw = random.Random(after)
        order = draw.sample(sorted(pages), len(pages))
        run = Run(tmp_path / str(after), pages)
        if not run.go_and_die(order, draw.sample(order, 2), after):
            break
        killed += 1
        for again in range(draw.randrange(3)):
            run.go_and_die(order, draw.sample(order, 1), draw.randrange(10 + 30 * again))
        run.go(draw.sample(order, len(order)))
        assert contents(run.folder / "store") == expected, after
        assert not list(run.work.glob("*.arrow")), after
        shutil.rmtree(run.folder)
        after += 2
    assert killed > 20


def test_a_page_that_failed_comes_late(tmp_path: Path, pages: Pages, expected: dict[str, bytes]) -> None:
    order = sorted(pages)
    run = Run(tmp_path / "run", pages)
    missing = [order[0], order[4], order[5], order[-2]]
    run.go(order, failing=missing)
    rest = {page_id: tiles for page_id, tiles in pages.items() if page_id not in missing}
    assert contents(run.folder / "store") == store_of(tmp_path / "rest", rest)
    run.go(missing[::-1])
    assert contents(run.folder / "store") == expected
    # and the other way round: pages that are in shards can't be made any more
    assert Run(tmp_path / "run", pages | {page_id: [] for page_id in missing}).go([]) == sum(map(len, rest.values()))
    assert contents(run.folder / "store") == store_of(tmp_path / "rest", rest)


def test_late_in_the_same_process(tmp_path: Path, pages: Pages, expected: dict[str, bytes]) -> None:
    """A page is skipped, then finished after all: the shards after its place are made anew."""
    run = Run(tmp_path, pages)
    writer = StoreWriter(run.folder / "store", run.work, list(pages), SHARD_BYTES)
    order = sorted(pages)
    late = next(page_id for page_id in order if pages[page_id])
    for page_id in order:
        write_tiles(run.work / f"{page_id}.arrow", pages[page_id])
        if page_id == late:
            writer.skip_page(page_id)
        else:
            run.tell(writer, page_id)
    with pytest.raises(InputError, match="isn't among"):
        writer.skip_page("0" * 16)
    writer.finish_page(late)
    writer.close()
    assert contents(run.folder / "store") == expected


def test_disk_use_stays_near_the_store(tmp_path: Path, pages: Pages) -> None:
    """Shards are on disk, and their pages' working files gone, long before the last page; at most two shards extra."""
    run = Run(tmp_path, pages)
    writer = StoreWriter(run.folder / "store", run.work, list(pages), SHARD_BYTES)
    largest = 0
    for page_id in sorted(pages):
        write_tiles(run.work / f"{page_id}.arrow", pages[page_id])
        largest = max(largest, (run.work / f"{page_id}.arrow").stat().st_size)
        run.tell(writer, page_id)
        files = [path for path in run.folder.rglob("*") if path.is_file()]
        extra = [path for path in files if not re.fullmatch(r"data-[0-9]+\.arrow", path.name)]
        assert sum(path.stat().st_size for path in extra) <= 2 * (SHARD_BYTES + 8_000) + largest  # 8 kB: a batch
    assert len(list((run.folder / "store").glob("*.arrow"))) > 3
    writer.close()


def test_without_images(tmp_path: Path, pages: Pages) -> None:
    work = Run(tmp_path, pages).work
    writer = StoreWriter(tmp_path / "store", work, list(pages), SHARD_BYTES, keep_images=False)
    for page_id, tiles in pages.items():
        write_tiles(work / f"{page_id}.arrow", tiles)
        writer.finish_page(page_id)
    writer.close()
    tiles = [tile for page_id in sorted(pages) for tile in pages[page_id]]
    write_store(tmp_path / "other", tiles, SHARD_BYTES, keep_images=False)
    assert contents(tmp_path / "store") == contents(tmp_path / "other")
    store = TileStore.open(tmp_path)
    assert list(store) == list(store.iterate_light()) and store.get(tiles[3].tile_id).image == b""
    with pytest.raises(InputError, match="tiles render"):
        store.image(tiles[0].tile_id)


def test_what_cannot_be_gathered(tmp_path: Path, pages: Pages) -> None:
    run = Run(tmp_path, pages)
    page_id, other = sorted(page_id for page_id in pages if pages[page_id])[:2]
    with pytest.raises(InputError, match="stands twice"):
        StoreWriter(tmp_path / "store", run.work, [page_id, page_id])
    writer = StoreWriter(tmp_path / "store", run.work, [page_id, other])
    with pytest.raises(InputError, match="neither finished nor skipped"):
        writer.close()
    with pytest.raises(InputError, match="found no such file"):
        writer.finish_page(page_id)
    write_tiles(run.work / f"{other}.arrow", pages[page_id])
    writer = StoreWriter(tmp_path / "store", run.work, [page_id, other])
    writer.skip_page(page_id)
    with pytest.raises(InputError, match="tiles of page"):
        writer.finish_page(other)


def test_another_runs_shards_are_refused(tmp_path: Path, pages: Pages) -> None:
    run = Run(tmp_path, pages)
    run.go(sorted(pages))
    with pytest.raises(InputError, match="isn't among the pages of this store"):
        StoreWriter(tmp_path / "store", run.work, ["0" * 16])


def test_no_tiles_at_all(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    writer = StoreWriter(tmp_path / "store", tmp_path / "work", ["0" * 16])
    writer.skip_page("0" * 16)
    assert writer.close() == 0
    write_store(tmp_path / "other", [])
    assert contents(tmp_path / "store") == contents(tmp_path / "other")
