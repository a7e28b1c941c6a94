"""tiles -> the same tiles with smaller pictures: an index, a reader or a mirror of them takes fewer bytes.

A tile keeps its id, text and place on its page: ``row``, ``column``, ``x_px`` and ``y_px`` stay in the page's pixels,
so that ids, gates and links to the page hold. What speaks of its picture is of the new one: ``width_px``, ``height_px``
and ``image_sha256``, the boxes of words, blocks and links, and ``evidence_px``, whose share of the picture stays. Such
tiles no longer cover their page, so its record says ``complete: false``: make queries on the tiles as they were
rendered, their ids serve here. A table of characters isn't carried along: its places are of the larger picture.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.items import process_items
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main
from tilewright.data_gen.images import decode_image, encode_image, image_sha256
from tilewright.data_gen.records import FAILED, Block, FailedPage, Link, Page, Tile, Word, iterate_jsonl, write_jsonl
from tilewright.data_gen.render_page import ImageFormat
from tilewright.data_gen.store.page_records import PAGES, pages_path
from tilewright.data_gen.store.rows import TilesWriter, check_tile_id
from tilewright.data_gen.store.writer import StoreWriter
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of, working_file
from tilewright.train.compress import compress, size

WORK, STORE = ".work", "store"
Boxed = TypeVar("Boxed", Word, Block, Link)


@dataclass(frozen=True)
class Config:
    """Compresses the pictures of ``tiles`` by ``compression`` c: each side x 1/sqrt(c), Lanczos; 1 keeps the sizes.

    ``image_format``: png, lossless webp (six tenths of png's bytes, in about the same time) or jpeg of
    ``jpeg_quality``, which loses more.
    ``threads``: pages at work at the same time.
    """

    out: Path
    compression: float
    tiles: Path = input_path()
    image_format: ImageFormat = "png"
    jpeg_quality: int = 90
    threads: int = execution(default=2)

    def __post_init__(self) -> None:
        try:
            size(1, 1, self.compression)
        except InputError as error:
            raise ValueError(str(error)) from error
        check_bounds(self, 1, 100, "jpeg_quality")
        check_bounds(self, 1, None, "threads")


def compress_tiles(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write store/ and, where the tiles have them beside their store, pages.jsonl and failed.jsonl; resumes by page.

    Raises InputError for a store without tiles or of other ids, and for a tile whose picture is broken or left out.
    """
    store = TileStore.open(inputs["tiles"])
    a_tile_of = {page_of(tile_id): tile_id for tile_id in store.tile_ids}
    for page_id, tile_id in a_tile_of.items():
        check_tile_id(tile_id, page_id)  # a page's id is the name of its working file
    page_ids = list(a_tile_of)
    if not page_ids:
        raise InputError(f"{store.folder}: holds no tiles: there is nothing to compress")
    work = out / WORK
    work.mkdir(exist_ok=True)
    writer = StoreWriter(out / STORE, work, page_ids)

    def make(page_id: str) -> dict[str, int]:
        return write_page(store, page_id, working_file(work, page_id, "arrow"), config)

    found = process_items(
        "compress_tiles",
        page_ids,
        str,
        lambda todo: _in_threads(make, todo, config.threads),
        out,
        finished=lambda page_id, _: writer.finish_page(page_id),
    )
    tiles = writer.close()
    _write_records(store, out)
    bytes_before, bytes_after = (sum(page[name] for page in found.values()) for name in ("bytes_before", "bytes_after"))
    return {"pages": len(page_ids), "tiles": tiles, "image_bytes_before": bytes_before, "image_bytes": bytes_after}


def write_page(store: TileStore, page_id: str, path: Path, config: Config) -> dict[str, int]:
    """Write a page's tiles, compressed, as the working file ``path``; bytes of its pictures before and after."""
    before = after = 0
    with TilesWriter(path) as writer:
        for place in store.tile_ids.of_page(page_id):
            tile = store.get(store.tile_ids[place])
            small = compressed(tile, config.compression, config.image_format, config.jpeg_quality)
            before, after = before + len(tile.image), after + len(small.image)
            writer.write(small)
    return {"bytes_before": before, "bytes_after": after}


def compressed(tile: Tile, compression: float, image_format: ImageFormat = "png", jpeg_quality: int = 90) -> Tile:
    """``tile`` with its picture compressed, and with sizes, boxes and areas of the new picture.

    Raises InputError for a picture that is broken or was left out, and for a compression below 1.
    """
    if not tile.image:
        raise InputError(
            f"tile {tile.tile_id} was stored without its image: `tilewright tiles render` makes it again from its page"
        )
    try:
        data = encode_image(compress(decode_image(tile.image), compression), image_format, jpeg_quality)
    except InputError as error:
        raise InputError(f"tile {tile.tile_id}: {error}") from error
    image = decode_image(data)  # what jpeg left of it
    across, down = image.width / tile.width_px, image.height / tile.height_px
    before, after = tile.width_px * tile.height_px, image.width * image.height
    return dataclasses.replace(
        tile,
        image=data,
        image_sha256=image_sha256(image),
        width_px=image.width,
        height_px=image.height,
        evidence_px={kind: area * after // before for kind, area in tile.evidence_px.items()},
        words=_scaled(tile.words, across, down),
        blocks=_scaled(tile.blocks, across, down),
        links=_scaled(tile.links, across, down),
    )


def _scaled(boxes: Sequence[Boxed], across: float, down: float) -> tuple[Boxed, ...]:
    return tuple(
        dataclasses.replace(
            box,
            x_px=box.x_px * across,
            y_px=box.y_px * down,
            width_px=box.width_px * across,
            height_px=box.height_px * down,
        )
        for box in boxes
    )


def _in_threads(
    make: Callable[[str], dict[str, int]], page_ids: Sequence[str], threads: int
) -> Iterator[tuple[str, dict[str, int]]]:
    """(page_id, what ``make`` gives for it) as they finish; ``threads`` of them at work, as many waiting."""
    todo = iter(page_ids)
    with ThreadPoolExecutor(threads) as pool:
        running: dict[Future[dict[str, int]], str] = {}
        while True:
            running |= {pool.submit(make, page_id): page_id for page_id in islice(todo, 2 * threads - len(running))}
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            yield from [(running.pop(future), future.result()) for future in done]


def _write_records(store: TileStore, out: Path) -> None:
    """pages.jsonl and failed.jsonl as they stand beside ``store``, if they do."""
    path = pages_path(store)
    if path is None:
        return
    pages = (dataclasses.replace(page, complete=False) for page in iterate_jsonl(path, Page))
    write_jsonl(out / PAGES, pages)
    if path.with_name(FAILED).is_file():
        write_jsonl(out / FAILED, iterate_jsonl(path.with_name(FAILED), FailedPage))


STAGE = Stage("compress_tiles", Config, compress_tiles, schema=1)

if __name__ == "__main__":
    main(STAGE)
