"""Stage: the parts of embed_tiles (``shard: i/n``) -> the vectors that one run would have written, byte for byte."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.part_manifests import manifests_of_parts
from tilewright.mining.index_arrays import Array
from tilewright.mining.vector_store import VectorStore
from tilewright.mining.vector_writer import VectorWriter
from tilewright.train.encoder_io import read_encoder_file, write_encoder_file

SUMMED = ("tiles", "visual_tokens", "embedded", "reused", "same_image")
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Config:
    """``parts``: the output folders of embed_tiles for shard 0/n to n-1/n, in any order; all n must be there."""

    out: Path
    parts: tuple[Path, ...] = input_path()


def merge_vectors(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write the tiles of all parts in the order of their ids.

    Raises InputError unless the parts are those of one request, each once, and no tile is in two of them.
    """
    manifests = manifests_of_parts(config.parts, ["embed_tiles"])
    stores = [VectorStore.open(part) for part in config.parts]
    encoder = read_encoder_file(config.parts[0])
    settings = manifests[0]["request"]["config"]
    writer = VectorWriter(
        out,
        tiles=sum(map(len, stores)),
        dimension=stores[0].dimension,
        dtype=settings["dtype"],
        encoder_hash=encoder.hash,
        model_dtype=settings["model_dtype"],
        shard_bytes=settings["shard_bytes"],
    )
    rows = _checked(heapq.merge(*(_rows(number, store) for number, store in enumerate(stores))), config.parts)
    shards = []
    for number, span in enumerate(writer.ranges()):
        ids, hashes, parts, places = zip(*[(i, h, p, n) for i, p, n, h in islice(rows, len(span))], strict=True)
        vectors = _vectors(stores, np.array(parts), np.array(places))
        shards.append(writer.write_shard(number, ids, hashes, vectors))
    writer.finish(shards)
    write_encoder_file(out, encoder.contract, encoder.weights_digest)
    counts = [manifest["counts"] for manifest in manifests]
    return {**counts[0], **{name: sum(each[name] for each in counts) for name in SUMMED}}


def _rows(number: int, store: VectorStore) -> Iterator[tuple[str, int, int, str]]:
    """(tile id, number of the part, row, image hash) in order."""
    for row, (tile_id, image_hash) in enumerate(zip(store.tile_ids, store.image_hashes(), strict=True)):
        yield tile_id, number, row, image_hash


def _checked(rows: Iterator[tuple[str, int, int, str]], parts: Sequence[Path]) -> Iterator[tuple[str, int, int, str]]:
    """``rows``; InputError if their ids don't ascend."""
    last = ""
    for row in rows:
        if row[0] <= last:
            raise InputError(f"{parts[row[1]]}: tile {row[0]} comes after {last}, or is in two parts")
        last = row[0]
        yield row


def _vectors(stores: Sequence[VectorStore], parts: Array, rows: Array) -> Iterator[Array]:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        of, places = parts[start : start + _ROWS_AT_ONCE], rows[start : start + _ROWS_AT_ONCE]
        found = np.empty((len(of), stores[0].dimension), np.float32)
        for number in np.unique(of).tolist():
            found[of == number] = stores[number].rows(places[of == number])
        yield found


STAGE = Stage("merge_vectors", Config, merge_vectors, schema=1)

if __name__ == "__main__":
    main(STAGE)
