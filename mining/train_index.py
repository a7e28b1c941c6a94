"""Stage: a quantiser trained once, for the shards of an index that build_index makes with it and merge_index joins."""

from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.mining import index_shards
from tilewright.mining.build_index import counts_of, open_source
from tilewright.mining.index_folder import INDEX_JSON
from tilewright.mining.index_settings import AUTO, IndexSettings


@dataclass(frozen=True)
class Config:
    """Trains by a sample of the vectors in the folders ``vectors``: all shards, or some that stand for all.

    ``index``: as of build_index, a kind other than flat. Lists are as many as suit the number of these vectors, so with
    some shards only say ``index.nlist``.
    """

    out: Path
    vectors: tuple[Path, ...] = input_path()
    index: IndexSettings = AUTO


def train_index(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write an index without tiles; return its parameters."""
    source = open_source(config.vectors)
    (out / INDEX_JSON).unlink(missing_ok=True)  # of a try that was killed
    index = index_shards.train_index(source, out, encoder_hash=source.encoder_hash, settings=config.index)
    return counts_of(index)


STAGE = Stage("train_index", Config, train_index)

if __name__ == "__main__":
    main(STAGE)
