"""Examples kept as columns beside a run: a resumed one maps them instead of reading a million lines again."""

import contextlib
import json
import shutil
import tempfile
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tilewright.configs.digests import digest_text
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.example_table import ExampleTable, Ragged
from tilewright.train.read_examples import read_examples

_KEY, _TEXTS = "key.json", "texts.arrow"
_ARRAYS = ("positives", "negative_edges", "negatives", "known_edges", "known", "tile_hashes")


def kept_examples(path: Path, store: TileStore, folder: Path, *, write: bool = True) -> ExampleTable:
    """``read_examples``, from the columns in ``folder`` if they were made of this file and store; else put there.

    Of several ranks one may ``write``; the others read what is whole.

    A file counts as the same by its size and time of change: whoever calls this has compared the digests of its inputs
    (``run_stage``). Errors as ``read_examples``.
    """
    key = _key_of(path, store)
    damaged = (OSError, ValueError, EOFError, TokenError, pa.ArrowException)  # numpy parses the arrays' headers
    with contextlib.suppress(*damaged):  # or missing: made again
        if (folder / _KEY).read_text(encoding="utf-8") == key:
            return _load(folder, store)
    table = read_examples(path, store)
    if write:
        _save(table, key, folder)
    return table


def _key_of(path: Path, store: TileStore) -> str:
    found = path.stat() if path.is_file() else None  # a missing file is read_examples' to tell
    file = [path.resolve().as_posix(), found and found.st_size, found and found.st_mtime_ns]
    return json.dumps([file, store.folder.resolve().as_posix(), digest_text(repr(store.state))])


def _save(table: ExampleTable, key: str, folder: Path) -> None:
    """Put the columns into ``folder`` whole or not at all; what was there goes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    negatives, known = table.negatives, table.known
    arrays = (table.positives, negatives.edges, negatives.values, known.edges, known.values, table.tile_hashes)
    for name, array in zip(_ARRAYS, arrays, strict=True):
        np.save(temporary / f"{name}.npy", array)
    texts = pa.table({"query_id": table.query_ids, "query": table.queries})
    with pa.ipc.new_file(temporary / _TEXTS, texts.schema) as file:
        file.write_table(texts)
    (temporary / _KEY).write_text(key, encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


def _load(folder: Path, store: TileStore) -> ExampleTable:
    arrays: dict[str, npt.NDArray[Any]] = {
        name: np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)) for name in _ARRAYS
    }
    with pa.memory_map(str(folder / _TEXTS)) as file, pa.ipc.open_file(file) as reader:  # the table keeps the mapping
        texts = reader.read_all().combine_chunks()
    query_ids, queries = (texts.column(name).chunk(0) for name in ("query_id", "query"))
    return ExampleTable(
        query_ids=query_ids,
        queries=queries,
        positives=arrays["positives"],
        negatives=Ragged(arrays["negative_edges"], arrays["negatives"]),
        known=Ragged(arrays["known_edges"], arrays["known"]),
        tile_ids=store.tile_ids,
        tile_hashes=arrays["tile_hashes"],
    )
