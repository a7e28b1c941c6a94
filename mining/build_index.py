"""Stage: vectors to an index that names the encoder they come from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.mining.index import Backend, TileIndex
from tilewright.mining.index_folder import INDEX_JSON
from tilewright.mining.index_settings import AUTO, RECALL, IndexSettings, RecallSettings
from tilewright.mining.index_source import StoreSource
from tilewright.mining.vector_store import VectorStore


@dataclass(frozen=True)
class Config:
    """An index of all vectors in the folders ``vectors``, in order, of the kind that ``index`` says.

    ``trained``: the folder of train_index, whose quantiser is used; ``index`` then says nothing, and shards that share
    it can be merged (merge_index). ``recall``: how recall is measured, and the least that will do. ``backend``: auto
    takes FAISS if it can be imported, else torch, which knows kind flat only.
    """

    out: Path
    vectors: tuple[Path, ...] = input_path()
    trained: Path | None = input_path(default=None)
    index: IndexSettings = AUTO
    recall: RecallSettings = RECALL
    backend: Backend = "auto"

    def __post_init__(self) -> None:
        if self.trained is not None and self.index != AUTO:
            raise ValueError("index: wanted nothing beside `trained`, whose index says it all")


def open_source(folders: Sequence[Path]) -> StoreSource:
    """The vectors of ``folders``, one after another. Raises InputError if they don't belong together."""
    return StoreSource([VectorStore.open(folder) for folder in folders])


def build_index(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write the index; return its size and recall."""
    source = open_source(config.vectors)
    like = None if config.trained is None else _trained(config.trained)
    (out / INDEX_JSON).unlink(missing_ok=True)  # of a try that was killed
    index = TileIndex.build_from(
        source,
        encoder_hash=source.encoder_hash,
        settings=config.index,
        recall=config.recall,
        like=like,
        folder=out,
        backend=config.backend,
    )
    return counts_of(index)


def _trained(folder: Path) -> TileIndex:
    index = TileIndex.load(folder)
    if index.quantiser is None:
        raise InputError(f"trained: {folder}: wanted the folder of train_index, found an index of kind flat")
    return index


def counts_of(index: TileIndex) -> dict[str, Any]:
    """What a manifest says of an index."""
    entry = index.entry
    used = {name: value for name, value in vars(entry.parameters).items() if value and name != "kind"}
    return {
        "tiles": len(index),
        "dimension": index.dimension,
        "kind": index.kind,
        "backend": index.backend,
        "recall_at_10_vs_exact": entry.recall_at_10_vs_exact,
        "recall_queries": entry.recall_queries,
        "encoder": index.encoder_hash,
        "parameters": used,
    }


STAGE = Stage("build_index", Config, build_index, schema=2)

if __name__ == "__main__":
    main(STAGE)
