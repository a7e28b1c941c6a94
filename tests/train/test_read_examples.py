"""Files read as columns: what ``read_jsonl`` reads, and refuses, with the same lines; repeats and strangers named."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import TextPair, TrainingExample, read_jsonl, write_jsonl
from tilewright.train import read_columns
from tilewright.train.read_examples import read_examples, read_text_pairs, tiles_of

GOOD = {"query_id": "a", "query": "Who?", "positive_tile_id": "t", "negative_tile_ids": ["u"]}
GOOD |= {"known_positive_tile_ids": ["v", "w"]}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def line(**changes: Any) -> str:
    return json.dumps({key: value for key, value in (GOOD | changes).items() if value != "absent"}) + "\n"


@given(st.lists(st.builds(TrainingExample, TEXT, TEXT, TEXT, st.lists(TEXT).map(tuple), st.lists(TEXT).map(tuple))))
@settings(max_examples=60, deadline=None)
def test_columns_hold_what_read_jsonl_reads(tmp_path_factory: Any, examples: list[TrainingExample]) -> None:
    path = tmp_path_factory.mktemp("columns") / "examples.jsonl"
    write_jsonl(path, examples)
    columns = read_columns.read_columns(path, TrainingExample)
    rows = [{name: tuple(v) if isinstance(v, list) else v for name, v in row.items()} for row in columns.to_pylist()]
    assert [TrainingExample(**row) for row in rows] == examples == read_jsonl(path, TrainingExample)


UNUSABLE = {
    "a key more": line(score=1),
    "a key less": line(query="absent"),
    "a number": line(query_id=3),
    "a list for a text": line(query=["x"]),
    "a text for a list": line(negative_tile_ids="u"),
    "a number in a list": line(negative_tile_ids=["u", 5]),
    "null": line(query=None),
    "null for a list": line(known_positive_tile_ids=None),
    "null in a list": line(negative_tile_ids=[None]),
    "an empty line": "\n",
    "no JSON": "{'query_id': 1}\n",
    "two on a line": line().rstrip() + line(),
    "a record on two lines": line().replace(", ", ",\n", 1),
    "an array": "[]\n",
    "broken UTF-8": line(query="\udcff\udcfe").encode().decode("unicode_escape"),
    "the end is missing": line()[:-4],
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_what_read_jsonl_refuses_is_refused_with_its_line(what: str, tmp_path: Path) -> None:
    path = tmp_path / "examples.jsonl"
    path.write_bytes((line() + line() + UNUSABLE[what]).encode("utf-8", "surrogateescape") + line().encode())
    with pytest.raises(InputError) as wanted:
        read_jsonl(path, TrainingExample)
    with pytest.raises(InputError) as found:
        read_columns.read_columns(path, TrainingExample)
    assert str(found.value) == str(wanted.value) and f"{path}:" in str(found.value)


def test_half_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    (tmp_path / "examples.jsonl").write_text(line() + line(query="half: \ud83d"))
    with pytest.raises(InputError, match=r"examples.jsonl:2: query: wanted Unicode text, found half of a surrogate"):
        read_columns.read_columns(tmp_path / "examples.jsonl", TrainingExample)


@pytest.mark.parametrize("query", ["Who?", "null and void?"])
def test_a_missing_list_with_a_default_is_empty(query: str, tmp_path: Path) -> None:
    path = tmp_path / "examples.jsonl"
    path.write_text(line() + line(known_positive_tile_ids="absent", query=query))
    columns = read_columns.read_columns(path, TrainingExample)
    assert columns.column("known_positive_tile_ids").to_pylist() == [["v", "w"], []]


def test_good_files_are_not_read_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks, no newline at the end: the parser of Arrow reads it alone."""
    monkeypatch.setattr(read_columns, "_line_by_line", None)
    monkeypatch.setattr(read_columns, "_BLOCK_BYTES", 4096)
    path = tmp_path / "examples.jsonl"
    path.write_text("".join(line(query_id=f"q{n}", query="é" * (n % 50)) for n in range(2000)).rstrip("\n"))
    columns = read_columns.read_columns(path, TrainingExample)
    assert columns.column("query_id").to_pylist() == [f"q{n}" for n in range(2000)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "examples.jsonl"


def test_a_table_gives_the_records_back(path: Path, reader_parts: Any) -> None:
    """Known positives that the store lacks can't be candidates: they go."""
    ids, store = reader_parts.tile_ids, reader_parts.store()
    examples = [
        TrainingExample(f"q{n}", f"{n}?", ids[n % 8], ids[n % 8 + 1 :][: n % 4], ("gone", ids[0])[: n % 3])
        for n in range(40)
    ]
    write_jsonl(path, examples)
    table = read_examples(path, store)
    kept = [item.known_positive_tile_ids for item in table]
    assert kept == [tuple(t for t in item.known_positive_tile_ids if t != "gone") for item in examples]
    for found, wanted in zip(table, examples, strict=True):
        assert (found.query_id, found.query, found.positive_tile_id) == (
            wanted.query_id,
            wanted.query,
            wanted.positive_tile_id,
        )
        assert found.negative_tile_ids == wanted.negative_tile_ids
    assert list(table[3:9:2]) == [table[3], table[5], table[7]] and table[-1] == table[39]
    assert list(table.take(np.array([5, 2, 5]))) == [table[5], table[2], table[5]]
    with pytest.raises(IndexError):
        table[40]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query_id": "q0"}, "examples.jsonl:6: query_id 'q0' stands twice .first on line 1"),
        ({"query": " \t"}, r"examples.jsonl:6: query: wanted some text, found ' \\t'"),
        ({"query_id": ""}, "examples.jsonl:6: query_id: wanted some text"),
        ({"positive_tile_id": "0" * 15 + "0-0000-01"}, "examples.jsonl:6: positive_tile_id: tile '0+-0000-01' is not"),
        ({"positive_tile_id": "x" * 40}, "examples.jsonl:6: positive_tile_id: tile 'xxx"),
        (
            {"negative_tile_ids": ["0" * 16 + "-0000-00\x00"]},
            "examples.jsonl:6: negative_tile_ids: tile '0+-0000-00.x00'",
        ),
    ],
)
def test_faults_are_named_with_their_line(changes: dict[str, Any], message: str, path: Path, reader_parts: Any) -> None:
    ids = reader_parts.tile_ids
    write_jsonl(path, [TrainingExample(f"q{n}", f"{n}?", ids[n], (ids[n + 1],)) for n in range(5)])
    good = {"query_id": "q5", "query": "5?", "positive_tile_id": ids[5], "negative_tile_ids": [ids[6]]}
    with path.open("a") as file:
        file.write(json.dumps(good | {"known_positive_tile_ids": []} | changes) + "\n")
    with pytest.raises(InputError, match=message):
        read_examples(path, reader_parts.store())


def test_the_first_faulty_line_is_named(path: Path, reader_parts: Any) -> None:
    ids = reader_parts.tile_ids
    examples = [TrainingExample("a", "A?", ids[0], ("gone",)), TrainingExample("b", "B?", "gone", ())]
    for order in (examples, examples[::-1]):
        write_jsonl(path, order)
        with pytest.raises(InputError, match=r"examples\.jsonl:1: "):
            read_examples(path, reader_parts.store())


def test_a_missing_file_is_named(path: Path, reader_parts: Any) -> None:
    with pytest.raises(InputError, match=r"examples\.jsonl is missing"):
        read_examples(path, reader_parts.store())


def test_tiles_of_pages(reader_parts: Any) -> None:
    store, pages = reader_parts.store(), [tile_id.partition("-")[0] for tile_id in reader_parts.tile_ids]
    for chosen in ([], pages[:3], pages[5:], pages, ["0" * 15]):
        wanted = [tile_id for tile_id in store.tile_ids if tile_id.partition("-")[0] in chosen]
        found = tiles_of(store, {"some": frozenset(chosen), "none": frozenset()})
        assert list(found["some"]) == wanted and not found["none"]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "no text pairs"),
        ([TextPair("a", "A?", "", "p", "m")], "pairs.jsonl:1: passage: wanted some text"),
        (
            [TextPair("a", "A?", "x", "p", "m"), TextPair("a", "B?", "y", "p", "m")],
            "pairs.jsonl:2: pair_id 'a' stands tw",
        ),
    ],
)
def test_unusable_text_pairs_are_named(pairs: list[TextPair], message: str, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "pairs.jsonl", pairs)
    with pytest.raises(InputError, match=message):
        read_text_pairs(tmp_path / "pairs.jsonl")


def test_lines_that_are_all_null_are_named(tmp_path: Path) -> None:
    path = tmp_path / "examples.jsonl"
    path.write_text("null\nnull\n")
    with pytest.raises(InputError, match="1: wanted"):
        read_columns.read_columns(path, TrainingExample)
