"""Stage: the tiles of several folders of disjoint pages -> one folder, of all their pages or of some splits'."""

from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.splits import pages_of_split
from tilewright.data_gen.store.merge import write_merged
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of


@dataclass(frozen=True)
class Config:
    """``tiles``: folders of render_tiles or compress_tiles, no page in two of them.

    ``pages``: pages.json of split_pairs or make_digest_pages: only pages of its ``splits`` are taken.
    """

    out: Path
    tiles: tuple[Path, ...] = input_path()
    pages: Path | None = input_path(default=None)
    splits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.tiles:
            raise ValueError("tiles: wanted at least one folder of tiles, found none")
        if (self.pages is None) == bool(self.splits):
            raise ValueError(
                f"splits: wanted with `pages`, and not without, found {list(self.splits)} and {self.pages}"
            )


def merge_tiles(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write store/ and, if the folders have them, pages.jsonl and failed.jsonl; pages without a tile are counted.

    Raises InputError as ``write_merged``, for a split that ``pages`` lacks, and if no tile is left.
    """
    only = None
    if "pages" in inputs:
        only = frozenset().union(*(pages_of_split(inputs["pages"], split) for split in config.splits))
    tiles = write_merged(config.tiles, out, only=only)
    if not tiles:
        raise InputError(f"{list(map(str, config.tiles))}: no tile of the pages of {list(config.splits)}: other pages?")
    pages = set(map(page_of, TileStore.open(out).tile_ids))
    without = {} if only is None else {"pages_without_tiles": len(only - pages)}
    return {"tiles": tiles, "pages": len(pages), "folders": len(config.tiles)} | without


STAGE = Stage("merge_tiles", Config, merge_tiles, schema=1)

if __name__ == "__main__":
    main(STAGE)
