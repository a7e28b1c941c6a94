"""Pairs that can't be used are named with file and line, wherever they are read."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.data_gen.pair_files import read_pair_file
from tilewright.data_gen.records import QAPair, to_json, write_jsonl
from tilewright.train.split_files import read_pairs

PAGE = "0123456789abcdef"
PAIR = QAPair("q1", "Who?", "I", (), f"{PAGE}-0000-00", PAGE, "", "sentence", "", "people/1")


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"query_id": ""}, "query_id"),
        ({"query_id": "a b"}, "query_id"),
        ({"query_id": "a\tb"}, "query_id"),
        ({"query_id": "a\x85b"}, "query_id"),
        ({"query_id": "a\u2028b"}, "query_id"),
        ({"query_id": "a\x00"}, "query_id"),
        ({"query_id": "\ud800"}, "query_id"),
        ({"tile_id": f"{PAGE}-0000-00 "}, "tile_id"),
        ({"page_id": f"{PAGE}\n"}, "page_id"),
        ({"page_id": "f" * 16}, "page_id"),
        ({"page_id": ""}, "page_id"),
        ({"query": ""}, "query of 'q2'"),
        ({"query": " \u00a0\n"}, "query of 'q2'"),
        ({"query_id": "q1"}, "stands twice"),
        *(({name: "\ud800"}, f"{name} of 'q2'") for name in ("answer", "source_span", "source_type", "subject")),
        ({"query": "Who \udfff?"}, "query of 'q2'"),
        ({"aliases": ["you", "\ud83d"]}, "aliases of 'q2'"),
        ({"annotator": "\ude00"}, "annotator of 'q2'"),
    ],
)
def test_faults_are_named_with_their_line(changes: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    lines = [json.dumps(to_json(pair)) for pair in (PAIR, dataclasses.replace(PAIR, **({"query_id": "q2"} | changes)))]
    path.write_text("\n".join(lines) + "\n")
    for read in (read_pair_file, read_pairs):
        with pytest.raises(InputError, match=rf"pairs\.jsonl:2: .*{wrong}"):
            read(path)


def test_good_pairs_and_questions_without_a_gold_tile_are_read(tmp_path: Path) -> None:
    bare = dataclasses.replace(PAIR, query_id="q2", tile_id="", page_id="")
    by_page = dataclasses.replace(PAIR, query_id="q3", tile_id="")
    write_jsonl(tmp_path / "pairs.jsonl", [PAIR, bare, by_page])
    assert read_pair_file(tmp_path / "pairs.jsonl") == [PAIR, bare, by_page]
    with pytest.raises(InputError, match="is missing"):
        read_pair_file(tmp_path / "gone.jsonl")
