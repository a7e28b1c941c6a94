"""The same rows from every kind of file; what can't be read is told by file and line."""

import csv
import gzip
import json
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tilewright.configs.errors import InputError
from tilewright.eval.benchmarks.rows import read_rows

ROWS = [{"q": "Wer baute die Brücke?", "n": "1"}, {"q": 'He said "no",\nthen "yes"', "n": "2"}, {"q": "x\ty", "n": "3"}]


def write(folder: Path, name: str) -> Path:
    path, kind = folder / name, name.removesuffix(".gz").rpartition(".")[2].lower()
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
        return path
    text = json.dumps(ROWS)
    if kind == "jsonl":
        text = "\ufeff" + "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\n"
    elif kind in ("csv", "tsv"):
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, ["q", "n"], delimiter="," if kind == "csv" else "\t")
            writer.writeheader()
            writer.writerows(ROWS)
        return path
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize(
    "name", ["a.jsonl", "a.jsonl.gz", "a.json", "a.json.gz", "a.csv", "a.tsv", "a.parquet", "A.JSONL"]
)
def test_every_kind_of_file_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name)
    assert [dict(row.data) for row in read_rows([path], None)] == ROWS
    assert len(list(read_rows([path, path], None))) == 6


def test_folders_of_datasets_keep_pictures_encoded(tmp_path: Path) -> None:
    features = datasets.Features({"q": datasets.Value("string"), "image": datasets.Image()})
    entry = {"q": "Who?", "image": {"bytes": b"not decoded here", "path": None}}
    one = datasets.Dataset.from_list([entry], features=features)
    one.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"test": one, "train": one}).save_to_disk(tmp_path / "two")
    for path, split in ((tmp_path / "one", None), (tmp_path / "two", "test")):
        (row,) = read_rows([path], split)
        assert row.data["q"] == "Who?" and row.data["image"]["bytes"] == b"not decoded here"
    with pytest.raises(InputError, match=r"wanted `split`, one of \['test', 'train'\], found None"):
        list(read_rows([tmp_path / "two"], None))
    with pytest.raises(InputError, match="holds one split"):
        list(read_rows([tmp_path / "one"], "test"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="save_to_disk"):
        list(read_rows([tmp_path / "empty"], None))


def test_objects_of_rows_and_of_splits(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"7": {"q": "a"}, "8": {"q": "b", "sample_id": "own"}}))
    assert [row.data["sample_id"] for row in read_rows([path], None)] == ["7", "own"]
    path.write_text(json.dumps({"dev": {"7": {"q": "a"}}, "train": {"8": {"q": "b"}}}))
    assert [row.data["q"] for row in read_rows([path], "dev")] == ["a"]
    with pytest.raises(InputError, match=r"wanted `split`, one of \['dev', 'train'\]"):
        list(read_rows([path], None))
    with pytest.raises(InputError, match=r"wanted the split 'test', found \['dev', 'train'\]"):
        list(read_rows([path], "test"))
    path.write_text(json.dumps({"data": [{"q": "a"}]}))
    assert len(list(read_rows([path], "data"))) == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"q": 1}\n{"q": \n', r"a\.jsonl:2: not JSON"),
        ("a.jsonl", b'{"q": 1}\n[1]\n', r"a\.jsonl:2: wanted a row with named fields, found list"),
        ("a.jsonl", b'{"q": "\xff"}\n', r"a\.jsonl: can't be read"),
        ("a.jsonl.gz", b"not gzip", r"a\.jsonl\.gz: can't be read"),
        ("a.jsonl.gz", gzip.compress(b'{"q": 1}\n' * 999, mtime=0)[:40], r"a\.jsonl\.gz: can't be read"),
        ("a.jsonl", b"[" * 100_000, r"a\.jsonl:1: not JSON"),
        ("a.jsonl", b"", "wanted at least one row, found none"),
        ("a.json", b"3", "wanted a list of rows"),
        ("a.json", b"[[1]]", r"a\.json\[0\]: wanted a row"),
        ("a.csv", b"q,n\n1\n", r"a\.csv:2: wanted 2 columns, found fewer"),
        ("a.csv", b"q,n\n1,2,3\n", r"a\.csv:2: wanted 2 columns, found more"),
        ("a.csv", b"q\n" + b"x" * 200_000 + b"\n", r"a\.csv: can't be read: field larger"),
        ("a.tsv", b'q\tn\n"open\t1\n', r"a\.tsv: can't be read"),
        ("a.parquet", b"PAR1", r"a\.parquet: wanted a Parquet file"),
        ("a.pkl", b"x", r"a\.pkl: wanted a file that ends in"),
    ],
)
def test_what_cannot_be_read_is_told_by_file(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_rows([tmp_path / name], None))


def test_a_missing_file_and_a_needless_split(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="wanted a file"):
        list(read_rows([tmp_path / "none.jsonl"], None))
    with pytest.raises(InputError, match="split: wanted with a JSON object"):
        list(read_rows([write(tmp_path, "a.jsonl")], "dev"))
