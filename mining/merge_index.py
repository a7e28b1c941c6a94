"""Stage: the shards of an index, built with one trained quantiser (or flat), as one index."""

from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.mining.build_index import counts_of, open_source
from tilewright.mining.index import TileIndex
from tilewright.mining.index_folder import INDEX_JSON
from tilewright.mining.index_settings import RECALL, RecallSettings
from tilewright.mining.index_shards import merge_indexes


@dataclass(frozen=True)
class Config:
    """``parts``: folders of indexes, in order; the result is that of build_index with all their vectors.

    ``vectors``: all these vectors, to measure recall again as ``recall`` says; without, a merged IVF index states none.
    """

    out: Path
    parts: tuple[Path, ...] = input_path()
    vectors: tuple[Path, ...] = input_path(default=())
    recall: RecallSettings = RECALL


def merge_index(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write the index; return its size and recall."""
    parts = [TileIndex.load(part) for part in config.parts]
    source = open_source(config.vectors) if config.vectors else None
    (out / INDEX_JSON).unlink(missing_ok=True)  # of a try that was killed
    return counts_of(merge_indexes(parts, out, source=source, recall=config.recall))


STAGE = Stage("merge_index", Config, merge_index)

if __name__ == "__main__":
    main(STAGE)
