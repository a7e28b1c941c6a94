"""``tilewright index info|add|remove`` on the result of a stage, as a user runs it."""

import json
from pathlib import Path

import pytest
from tests.mining.index_corpus import HASH, ids_of, unit

from tilewright.cli import main
from tilewright.configs.errors import InputError
from tilewright.configs.manifest import read_manifest
from tilewright.configs.stage import run_stage
from tilewright.mining.build_index import STAGE, Config
from tilewright.mining.index import TileIndex
from tilewright.mining.index_folder import detached
from tilewright.mining.vector_writer import write_vector_store

VECTORS, IDS = unit(400, 1), ids_of(400)


def _store(folder: Path, part: slice, encoder_hash: str = HASH) -> Path:
    write_vector_store(folder, IDS[part], ["0" * 64] * len(IDS[part]), VECTORS[part], encoder_hash=encoder_hash)
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Path:
    run_stage(STAGE, Config(tmp_path / "index", (_store(tmp_path / "vectors", slice(0, 300)),)))
    return tmp_path / "index"


def test_info_add_and_remove(index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["index", "info", str(index)])
    info = json.loads(capsys.readouterr().out)
    assert {"kind": "flat", "tiles": 300, "dimension": 16, "encoder_hash": HASH, "segments": 1}.items() <= info.items()
    more = [str(_store(tmp_path / f"more{at}", slice(at, at + 50))) for at in (300, 350)]
    with pytest.raises(
        SystemExit, match=r"is the result of a stage, as its manifest\.json says: edit a copy, or detach"
    ):
        main(["index", "add", str(index), *more])
    main(["index", "add", str(index), *more, "--detach"])
    assert capsys.readouterr().out == f"{index}: 100 tiles added, 400 now\n"
    assert read_manifest(index) is None and (index / "manifest.before_edits.json").is_file()
    page = IDS[7].partition("-")[0]
    gone = {tile_id for tile_id in IDS if tile_id.startswith(page)} | {IDS[0]}
    main(["index", "remove", str(index), IDS[0], "--pages", page])
    assert capsys.readouterr().out == f"{index}: {len(gone)} tiles removed, {400 - len(gone)} now\n"
    assert set(TileIndex.load(index).tile_ids) == set(IDS) - gone


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "{root}/vectors"], "not an index that we can read"),
        (["add", "{root}/index", "{root}/index", "--detach"], "not a folder of vectors"),
        (["add", "{root}/index", "{root}/vectors", "--detach"], "300 tiles are in the index already"),
        (["add", "{root}/index", "{root}/foreign", "--detach"], "wanted vectors of encoder eeee"),
        (["remove", "{root}/index", "nobody", "--detach"], "1 of 1 tiles aren't in the index"),
        (["remove", "{root}/index", "--pages", "nobody", "--detach"], "wanted tile ids, or --pages with tiles in the"),
    ],
)
def test_refused_with_one_line_and_nothing_changed(
    arguments: list[str], message: str, index: Path, tmp_path: Path
) -> None:
    _store(tmp_path / "foreign", slice(300, 310), "f" * 64)
    with pytest.raises(SystemExit, match=message):
        main(["index", *(argument.format(root=tmp_path) for argument in arguments)])
    assert len(TileIndex.load(index)) == 300
    assert read_manifest(index) is not None


def test_the_manifest_stays_aside_once_the_index_has_changed(index: Path) -> None:
    with pytest.raises(InputError), detached(index, True):
        TileIndex.load(index).remove(IDS[:1])
        TileIndex.load(index).remove(IDS[:1])
    assert read_manifest(index) is None
    assert len(TileIndex.load(index)) == 299


def test_the_smoke_configs_run_on_a_corpus_of_fourteen_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """build_index, train_index and merge_index as they ship, and an index by the quantiser that was trained."""
    monkeypatch.setenv("TILEWRIGHT_RUNS", str(tmp_path))
    _store(tmp_path / "smoke/vectors_base", slice(0, 14))
    for stage in ("build_index", "train_index", "merge_index"):
        main([stage, f"configs/mining/{stage}/smoke.yaml"])
    one, merged = (TileIndex.load(tmp_path / "smoke" / name) for name in ("index_base", "index_merged"))
    assert merged.tile_ids == one.tile_ids and merged.search(VECTORS[:3], 5) == one.search(VECTORS[:3], 5)
    trained = f"trained={tmp_path}/smoke/index_quantiser"
    main(["build_index", "configs/mining/build_index/smoke.yaml", f"out={tmp_path}/quantised", trained])
    info = TileIndex.load(tmp_path / "quantised").info()
    assert (info["kind"], info["tiles"], info["recall_at_10_vs_exact"]) == ("ivf_sq8", 14, 1.0)
