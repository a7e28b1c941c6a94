"""The state of a tile store: which shards it has, and the sorted ids of their rows.

``state.json`` is ``datasets``' own file with one more key: the shards with their rows and bytes, the files of the
sorted ids, the next free number. It is replaced last, so what it names is whole whatever happened before.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.configs.partial import reserve_space
from tilewright.data_gen.store.rows import ID_WIDTH, read_batches, tile_features

STATE, INFO = "state.json", "dataset_info.json"  # the names `datasets` gives them
_KEY, _FORMAT = "tilewright", 1
_OURS = re.compile(r"\.?(data-[0-9]+\.arrow|tile_(ids|rows)(-[0-9]+)?\.npy|pages-[0-9]+\.jsonl)(\.tmp)?")


@dataclass(frozen=True)
class Shard:
    """A file of rows: its name in the store's folder, how many rows and bytes it has."""

    name: str
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class StoreState:
    """The files of a store. ``rows`` names the row of each sorted id, None where rows stand in order of id.

    ``next_number``: of the next edit's files. ``pages``: a pages.jsonl that an edit has yet to put beside the store.
    """

    shards: tuple[Shard, ...]
    ids: str
    rows: str | None
    next_number: int
    pages: str | None = None

    @property
    def is_edited(self) -> bool:
        """Whether pages came or went since it was written: what was made beside it then may be of other tiles."""
        return self.ids != ids_file("")


def ids_file(suffix: str) -> str:
    """Where the sorted ids lie; ``suffix`` is that of an edit."""
    return f"tile_ids{suffix}.npy"


def shard_ids(folder: Path, shard: Shard) -> np.ndarray[Any, Any]:
    """The ids of a shard's rows [rows], bytes; no image is read."""
    batches = read_batches(folder / shard.name)
    ids = [tile_id for batch in batches for tile_id in batch.column("tile_id").to_pylist()]
    if len(ids) != shard.rows:
        raise InputError(f"{folder / shard.name}: wanted {shard.rows} rows, found {len(ids)}")
    return np.array(ids, dtype=f"S{ID_WIDTH}")


def write_state(folder: Path, shards: Sequence[Shard], next_number: int, edit: int | None = None) -> StoreState:
    """Make the ids' files of ``shards`` (with the number of an edit in their names), then the state that names all.

    Raises InputError for an id that stands twice.
    """
    suffix = "" if edit is None else f"-{edit:05d}"
    state = StoreState(tuple(shards), ids_file(suffix), None, next_number)
    if not _write_ids(folder, state):
        state = replace(state, rows=f"tile_rows{suffix}.npy")
        _sort_ids(folder, state)
    info = {"citation": "", "description": "", "features": tile_features().to_dict(), "license": ""}
    write_json(folder / INFO, info)
    return state


def publish_state(folder: Path, state: StoreState) -> None:
    """Replace ``state.json``: from now on the store is what ``state`` names. Other files of a store are deleted."""
    formats: dict[str, Any] = {
        "_data_files": [{"filename": shard.name} for shard in state.shards],
        "_fingerprint": "tilewright",  # a constant: the bytes depend on the tiles alone
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    write_json(folder / STATE, formats | {_KEY: {"format": _FORMAT} | asdict(state)})
    remove_leftovers(folder, state)


def remove_leftovers(folder: Path, state: StoreState) -> None:
    """Delete shards and ids that ``state`` doesn't name: what a killed edit left, or what an edit replaced."""
    named = {state.ids, state.rows, state.pages, *(shard.name for shard in state.shards)}
    for path in sorted(folder.iterdir()):
        if _OURS.fullmatch(path.name) and path.name not in named:
            path.unlink()


def read_state(folder: Path) -> StoreState:
    """The state of the store in ``folder``. Raises InputError if it can't be read or files are gone or cut short."""
    try:
        data = json.loads((folder / STATE).read_text(encoding="utf-8"))[_KEY]
        if data.pop("format") != _FORMAT:
            raise ValueError(f"wanted format {_FORMAT}")
        if not all(name is None or _OURS.fullmatch(name) for name in (data["ids"], data["rows"], data["pages"])):
            raise ValueError("it names files that are no part of a store")
        shards = tuple(Shard(str(item["name"]), int(item["rows"]), int(item["size_bytes"])) for item in data["shards"])
        state = StoreState(shards, str(data["ids"]), data["rows"], int(data["next_number"]), data["pages"])
        for shard in shards:
            size_bytes = (folder / shard.name).stat().st_size
            if not _OURS.fullmatch(shard.name) or size_bytes != shard.size_bytes:
                raise ValueError(f"{shard.name}: wanted {shard.size_bytes} bytes, found {size_bytes}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{folder}: not a readable tile store ({error!r}); run render_tiles again") from error
    return state


def _write_ids(folder: Path, state: StoreState) -> bool:
    """Write the ids of all rows, as they stand; whether they are ascending."""
    count = sum(shard.rows for shard in state.shards)
    array, last, ascending, start = _new_array(folder / state.ids, count, f"S{ID_WIDTH}"), b"", True, 0
    for shard in state.shards:
        ids = shard_ids(folder, shard)
        array[start : start + len(ids)] = ids
        chain = np.concatenate([np.array([last], ids.dtype), ids])
        ascending &= bool(np.all(chain[:-1] < chain[1:]))
        last, start = chain[-1], start + len(ids)
    _close_array(folder / state.ids, array)
    return ascending


def _sort_ids(folder: Path, state: StoreState) -> None:
    ids = np.load(folder / state.ids)
    rows = np.argsort(ids, kind="stable")
    ids = ids[rows]
    doubled = np.flatnonzero(ids[:-1] == ids[1:])
    if len(doubled):
        raise InputError(f"{folder}: tile_id {bytes(ids[doubled[0]]).decode()!r} stands twice; wanted each id once")
    for name, values in ((state.ids, ids), (str(state.rows), rows.astype(np.int64))):
        array = _new_array(folder / name, len(values), values.dtype.str)
        array[:] = values
        _close_array(folder / name, array)


def _new_array(path: Path, count: int, dtype: str) -> Any:
    """A new .npy file, mapped; one without rows can't be mapped and stays in memory."""
    if not count:
        return np.empty(0, dtype)
    temporary = path.with_name(f"{path.name}.tmp")
    array = np.lib.format.open_memmap(temporary, "w+", dtype=np.dtype(dtype), shape=(count,))
    reserve_space(temporary)
    return array


def _close_array(path: Path, array: Any) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    if isinstance(array, np.memmap):
        array.flush()
    else:
        with temporary.open("wb") as file:
            np.save(file, array)
    temporary.replace(path)


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write ``data`` so that ``path`` holds either the old or the new content, whatever happens."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    sync_file(temporary)
    temporary.replace(path)


def sync_file(path: Path) -> None:
    """Have the disk hold what was written to ``path``."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
