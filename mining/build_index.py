"""Stage: vectors to an index that names the encoder they come from."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.mining.embed_tiles import TILE_IDS, VECTORS
from tilewright.mining.index import Backend, TileIndex
from tilewright.train.encoder_io import read_encoder_file


@dataclass(frozen=True)
class Config:
    """An exact index of the vectors in ``vectors``. ``backend``: auto takes FAISS if it can be imported, else torch."""

    out: Path
    vectors: Path = input_path()
    backend: Backend = "auto"


def build_index(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write the index; return its size."""
    folder = inputs["vectors"]
    encoder = read_encoder_file(folder)
    try:
        vectors = np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
        tile_ids = json.loads((folder / TILE_IDS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: not a folder of vectors: {error}; run embed_tiles") from error
    index = TileIndex.build(vectors, tile_ids, encoder_hash=encoder.hash, backend=config.backend)
    index.save(out)
    return {"tiles": len(index), "dimension": index.dimension, "backend": index.backend, "encoder": encoder.hash}


STAGE = Stage("build_index", Config, build_index, schema=1)

if __name__ == "__main__":
    main(STAGE)
