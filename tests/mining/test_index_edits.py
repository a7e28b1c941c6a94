"""Adding to and removing from an index: equal to the index of what is left; atomic; one process at a time."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mining.index_corpus import ANY, build, ids_of, unit

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.locks import FolderBusyError, folder_lock
from tilewright.mining.index import TileIndex
from tilewright.mining.index_settings import KINDS
from tilewright.mining.index_shards import merge_indexes

COUNT = 640
VECTORS, IDS, QUERIES = unit(COUNT, 1), ids_of(COUNT), unit(12, 2)
FIRST = 350  # tiles of an index at first


@pytest.fixture(scope="module")
def trained() -> dict[str, TileIndex]:
    return {kind: build(kind, VECTORS, IDS) for kind in KINDS}


def _start(kind: str, trained: dict[str, TileIndex], folder: Path | None = None) -> TileIndex:
    like = None if kind == "flat" else trained[kind]
    return build(kind, VECTORS[:FIRST], IDS[:FIRST], folder=folder, like=like)


def _of(kind: str, numbers: list[int], trained: dict[str, TileIndex]) -> TileIndex:
    """The index of these tiles, at once."""
    like = None if kind == "flat" else trained[kind]
    return build(kind, VECTORS[numbers], [IDS[number] for number in numbers], like=like)


EDITS = st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, COUNT - 1), min_size=1, max_size=250)), max_size=5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mapped", [False, True])
def test_edits_give_the_index_of_what_is_left(
    kind: str, mapped: bool, trained: dict[str, TileIndex], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Exactly the hits and scores, whatever the order of the vectors, also with filters and for every k."""

    @settings(deadline=None, max_examples=4 if mapped else 12)
    @given(EDITS, st.integers(1, COUNT))
    def check(edits: list[tuple[bool, set[int]]], k: int) -> None:
        index = _start(kind, trained, tmp_path_factory.mktemp("index") if mapped else None)
        there = set(range(FIRST))
        for adding, numbers in edits:
            chosen = sorted(numbers - there if adding else numbers & there)
            if not chosen or (not adding and len(chosen) == len(there)):
                continue
            if adding:
                index.add(VECTORS[chosen], [IDS[number] for number in chosen])
                there |= set(chosen)
            else:
                index.remove(IDS[number] for number in chosen)
                there -= set(chosen)
        wanted = _of(kind, sorted(there, key=lambda number: -number), trained)
        pages = {IDS[number].partition("-")[0] for number in range(0, COUNT, 5)}
        for found in (index, *([TileIndex.load(index.folder)] if index.folder else [])):
            assert (len(found), set(found.tile_ids)) == (len(there), {IDS[number] for number in there})
            assert found.search(QUERIES, k) == wanted.search(QUERIES, k)
            assert found.search(QUERIES, 7, pages=pages) == wanted.search(QUERIES, 7, pages=pages)
            assert found.missing(IDS) == [IDS[number] for number in range(COUNT) if number not in there]
            left, one = [IDS[number] for number in there], IDS[max(there)]
            assert found.first_beyond(left) is None and one in found
            assert found.first_beyond([tile_id for tile_id in left if tile_id != one]) == one

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_merging_one_index_drops_what_is_removed(kind: str, trained: dict[str, TileIndex], tmp_path: Path) -> None:
    index = _start(kind, trained, tmp_path / "index")
    index.remove(IDS[:100])
    index.add(VECTORS[FIRST:], IDS[FIRST:])
    compact = merge_indexes([index], tmp_path / "compact", recall=ANY)
    assert compact.search(QUERIES, 30) == index.search(QUERIES, 30)
    info, before = compact.info(), index.info()
    assert (info["segments"], info["removed_tiles"], info["tiles"]) == (1, 0, 540)
    assert (before["segments"], before["removed_tiles"], before["tiles"]) == (2, 100, 540)
    assert info["bytes"] < before["bytes"]


def test_files_never_change_and_leftovers_go(trained: dict[str, TileIndex], tmp_path: Path) -> None:
    index = _start("ivf", trained, tmp_path)
    index.remove(IDS[:10])
    before = output_digests(tmp_path)
    (tmp_path / "segment-000009").mkdir()
    (tmp_path / "segment-000009/tile_ids.npy").write_bytes(b"cut short")
    (tmp_path / "removed-000009-000001.npy").write_bytes(b"")
    index.add(VECTORS[FIRST:400], IDS[FIRST:400])
    after = output_digests(tmp_path)
    assert {name: after.get(name) for name in before} | {"index.json": ""} == before | {"index.json": ""}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock", "index.json", "removed-000002-000001.npy", "segment-000001", "segment-000003", "trained.faiss",
    ]  # fmt: skip
    index.remove(IDS[10:20])
    names = {path.name for path in tmp_path.glob("removed*")}
    assert names == {"removed-000002-000001.npy", "removed-000004-000001.npy"}, "a reader may still want the last one"
    index.remove(IDS[20:21])
    assert {path.name for path in tmp_path.glob("removed*")} == {f"removed-00000{n}-000001.npy" for n in (4, 5)}


def test_mapped_arrays_are_read_only(trained: dict[str, TileIndex], tmp_path: Path) -> None:
    for kind in KINDS:
        segment = _start(kind, trained, tmp_path / kind).segments[0]
        stored = [getattr(segment.stored, name) for name in ("matrix", "raw") if hasattr(segment.stored, name)]
        assert not any(array.flags.writeable for array in (segment.ids, segment.order, *stored))
        assert len(stored) == 1


@pytest.mark.parametrize("mapped", [False, True])
def test_edits_that_are_refused(mapped: bool, trained: dict[str, TileIndex], tmp_path: Path) -> None:
    index = _start("ivf_sq8", trained, tmp_path / "index" if mapped else None)
    entry = index.entry
    more = VECTORS[FIRST:360], IDS[FIRST:360]
    for act, message in (
        (lambda: index.add(VECTORS[340:360], IDS[340:360]), r"10 tiles are in the index already \(first: \w+-"),
        (lambda: index.add(VECTORS[FIRST : FIRST + 2], [IDS[FIRST]] * 2), "stands twice"),
        (
            lambda: index.add(more[0][:, :8], more[1]),
            "wanted vectors of encoder e+, dimension 16; found .* dimension 8",
        ),
        (lambda: index.add(*more, encoder_hash="f" * 64), "found encoder ffff"),
        (lambda: index.add(more[0] * 3, more[1]), "aren't of unit length"),
        (lambda: index.add(more[0][:0], []), "at least one tile"),
        (lambda: index.add(more[0], ["a\0b", *more[1][1:]]), "no NUL"),
        (lambda: index.remove([IDS[0], "unknown", "a-very-long-id-" * 9]), "2 of 3 tiles aren't in the index"),
        (lambda: index.remove(IDS[:FIRST]), "these are all 350 tiles of the index"),
    ):
        with pytest.raises(InputError, match=message):
            act()
        assert (len(index), index.entry) == (FIRST, entry)
    index.remove(IDS[:5])
    with pytest.raises(InputError, match="1 of 1 tiles aren't in the index"):
        index.remove([IDS[0]])
    index.add(VECTORS[:1], IDS[:1])
    assert len(index) == FIRST - 4


def test_a_stages_result_is_not_edited(trained: dict[str, TileIndex], tmp_path: Path) -> None:
    index = _start("flat", trained, tmp_path)
    keys = ("identity", "request", "counts", "outputs", "sizes", "provenance")
    (tmp_path / "manifest.json").write_text(json.dumps({key: {} for key in keys}))
    with pytest.raises(InputError, match="is the result of a stage"):
        index.remove(IDS[:1])


def test_two_that_edit_at_once(trained: dict[str, TileIndex], tmp_path: Path) -> None:
    index, other = _start("ivf", trained, tmp_path), TileIndex.load(tmp_path)
    with folder_lock(tmp_path), pytest.raises(FolderBusyError, match="another process is changing"):
        index.add(VECTORS[FIRST:400], IDS[FIRST:400])
    index.add(VECTORS[FIRST:400], IDS[FIRST:400])
    assert (len(index), len(other)) == (400, FIRST)
    with pytest.raises(InputError, match="50 tiles are in the index already"):  # though it was loaded before
        other.add(VECTORS[FIRST:400], IDS[FIRST:400])
    other.add(VECTORS[400:], IDS[400:])
    assert (len(index), len(other), len(TileIndex.load(tmp_path))) == (400, COUNT, COUNT)
    index.remove(IDS[400:401])
    assert len(index) == COUNT - 1


PROGRAM = """
import sys, time
from pathlib import Path
import numpy as np
from tilewright.mining import index_build
from tilewright.mining.index import TileIndex

write_codes = index_build.write_codes
def slowly(*arguments):
    write_codes(*arguments)
    print("half", flush=True)
    time.sleep(600)
index_build.write_codes = slowly
vectors = np.load(sys.argv[2])
TileIndex.load(Path(sys.argv[1])).add(vectors, [f"new-{i}" for i in range(len(vectors))])
"""


@contextmanager
def _adding(folder: Path, vectors: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has written half of a segment."""
    command = [sys.executable, "-c", PROGRAM, str(folder), str(vectors)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "half\n"
            yield process
        finally:
            process.kill()


def test_killed_in_the_middle_of_adding(trained: dict[str, TileIndex], tmp_path: Path) -> None:
    index = _start("ivf_pq", trained, tmp_path / "index")
    index.remove(IDS[:3])
    wanted, before = index.search(QUERIES, 10), output_digests(tmp_path / "index")
    np.save(tmp_path / "new.npy", VECTORS[FIRST:])
    with _adding(tmp_path / "index", tmp_path / "new.npy") as process:
        assert TileIndex.load(tmp_path / "index").search(QUERIES, 10) == wanted
        with pytest.raises(FolderBusyError):
            index.remove(IDS[3:4])
        process.send_signal(signal.SIGKILL)
        process.wait()
    left = output_digests(tmp_path / "index")
    assert before.items() < left.items(), "half a segment lies there"
    again = TileIndex.load(tmp_path / "index")
    assert again.search(QUERIES, 10) == wanted
    again.add(VECTORS[FIRST:], IDS[FIRST:])
    assert len(again) == COUNT - 3
    assert TileIndex.load(tmp_path / "index").search(QUERIES, 10) == again.search(QUERIES, 10)
