"""Records survive JSONL; what is no record names file and line."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import Page, ReaderExample, TrainingExample, read_jsonl, write_jsonl

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
IDS = st.lists(TEXT, max_size=4).map(tuple)
EXAMPLES = st.lists(st.builds(TrainingExample, TEXT, TEXT, TEXT, IDS, IDS), max_size=4)


@given(EXAMPLES)
def test_round_trip(examples: list[TrainingExample]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "examples.jsonl"
        assert write_jsonl(path, examples) == len(examples)
        assert read_jsonl(path, TrainingExample) == examples


def test_none_and_whole_numbers_for_floats(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(
        '{"query_id": "q", "query": "", "answer": "a", "tile_ids": [], "gold_position": null, "compression": 4}\n'
    )
    (example,) = read_jsonl(path, ReaderExample)
    assert example == ReaderExample("q", "", "a", (), None, 4.0) and isinstance(example.compression, float)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"", "not JSON"),
        (b"[]", "wanted a JSON object for Page"),
        (b'{"page_id": "x"}', r"missing keys \['html_path', 'source', 'title', 'url'\]"),
        (b'{"page_id": 1, "url": "", "title": "", "html_path": "", "source": ""}', "page_id: wanted .*str.*, found 1"),
        (b'{"page_id": "", "url": "", "title": "", "html_path": "", "source": "", "x": 1}', r"unknown keys \['x'\]"),
    ],
)
def test_what_is_no_record_names_file_and_line(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "pages.jsonl"
    write_jsonl(path, [Page("a", "u", "t", "h", "s")])
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(InputError, match=rf"pages\.jsonl:2: .*{message}"):
        read_jsonl(path, Page)


def test_ids_that_stand_twice_name_both_lines(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    write_jsonl(path, [Page(name, "u", "t", "h", "s") for name in "aba"])
    with pytest.raises(InputError, match=r"pages\.jsonl:3: page_id 'a' stands twice \(first on line 1\)"):
        read_jsonl(path, Page, unique="page_id")
    assert len(read_jsonl(path, Page)) == 3
