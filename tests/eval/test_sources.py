"""What an evaluation rests on: folders of earlier stages that can't be read are named."""

import json
from pathlib import Path

import pytest

from tilewright.configs.errors import InputError
from tilewright.eval.questions import Pool
from tilewright.eval.sources import manifest_of, pool_facts

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
