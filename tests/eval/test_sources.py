"""What an evaluation rests on: folders of earlier stages that can't be read are named."""

import json
from pathlib import Path

import pytest

from tilewright.configs.errors import InputError
from tilewright.eval.metrics import RowResult
from tilewright.eval.questions import Pool
from tilewright.eval.sources import Models, manifest_of, nano_lines, pool_facts, stand_ins
from tilewright.train.make_tiny_model import TINY_NAME

PAGE = "0" * 16
POOL = Pool({f"{PAGE}-0000-00": PAGE}, {PAGE: (f"{PAGE}-0000-00",)})
MANIFEST = {"identity": "x", "request": {"stage": "s", "config": {}}, "counts": {}, "outputs": {}, "sizes": {}}
BROKEN = (
    b"",
    b"{",
    b"\xff",
    b"[]",
    json.dumps(MANIFEST | {"provenance": {}, "request": {}}).encode(),
    json.dumps(MANIFEST | {"provenance": {}, "request": []}).encode(),
    json.dumps(MANIFEST | {"provenance": {}, "counts": [1]}).encode(),
)


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_manifest_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(InputError, match=r"manifest\.json"):
        manifest_of(tmp_path)
    with pytest.raises(InputError, match=r"manifest\.json"):
        pool_facts(POOL, tmp_path)


def test_a_missing_manifest_is_an_error_but_not_for_tiles_made_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"found no manifest\.json"):
        manifest_of(tmp_path)
    assert pool_facts(POOL, tmp_path)["corpus_tiles"] == 1
    (tmp_path / "manifest.json").write_text(json.dumps(MANIFEST | {"provenance": {}, "counts": {"pages": 7}}))
    assert manifest_of(tmp_path)["counts"] == {"pages": 7} and pool_facts(POOL, tmp_path)["corpus_pages"] == 7


def test_nano_is_called_a_lexical_reader_and_enlarged_tiles_no_saving() -> None:
    rows = {
        "base": RowResult({}, {}, {"family": "nano", "enlarge": 2.0}),
        "whole": RowResult({}, {}, {"family": "nano", "enlarge": 1.0}),
        "tiny": RowResult({}, {}, {"family": "qwen3_vl", "enlarge": 1.0}),
        "bm25": RowResult({}, {}, {"text": "DOM text"}),
    }
    lexical, enlarged = nano_lines(rows)
    assert "of base, whole are nano, a lexical reader" in lexical and "substitute for Qwen3-VL-Embedding" in lexical
    assert enlarged.startswith("base: ") and "accuracy by resolution, not by tokens" in enlarged
    assert len(nano_lines({"whole": rows["whole"]})) == 1
    assert nano_lines({name: rows[name] for name in ("tiny", "bm25")}) == []


def test_only_what_is_tiny_is_expected_near_chance(tmp_path: Path) -> None:
    for name in ("tiny", "real"):
        (tmp_path / name).mkdir()
    (tmp_path / "tiny" / "README.md").write_text(TINY_NAME)
    tiny, real = {"a": tmp_path / "tiny"}, {"b": tmp_path / "real"}
    (both,) = stand_ins([], Models(tiny, {"reader": tmp_path / "tiny"}), [])
    assert "(embedder a, reader reader)" in both and "held-out recall near chance and reader accuracy near zero" in both
    (reader,) = stand_ins([], Models(real, {"reader": tmp_path / "tiny"}), [])
    assert "(reader reader)" in reader and "recall" not in reader
    assert stand_ins(["a person"], Models(real, real), []) == []
