"""Stage: vectors to an index that names the encoder they come from."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.mining.index import Backend, TileIndex
from tilewright.mining.vector_store import VectorStore


@dataclass(frozen=True)
class Config:
    """An exact index of the vectors in ``vectors``. ``backend``: auto takes FAISS if it can be imported, else torch."""

    out: Path
    vectors: Path = input_path()
    backend: Backend = "auto"


def build_index(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write the index; return its size."""
    store = VectorStore.open(inputs["vectors"])
    index = TileIndex.build(
        store.rows(np.arange(len(store))), list(store.tile_ids), encoder_hash=store.encoder_hash, backend=config.backend
    )
    index.save(out)
    return {"tiles": len(index), "dimension": index.dimension, "backend": index.backend, "encoder": store.encoder_hash}


STAGE = Stage("build_index", Config, build_index, schema=1)

if __name__ == "__main__":
    main(STAGE)
