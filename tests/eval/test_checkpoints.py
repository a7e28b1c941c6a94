"""Named checkpoints: their identity, the tiles that readers are given beside smaller ones, rows of nano."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.requests import identity_of, request_of
from tilewright.configs.stage import run_stage
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.eval.checkpoints import Checkpoint
from tilewright.eval.evaluate import STAGE
from tilewright.eval.rows import RowSpec
from tilewright.train.compress_tiles import STAGE as COMPRESS
from tilewright.train.compress_tiles import Config as CompressConfig
from tilewright.train.nano import NanoConfig, NanoModel
from tilewright.train.nano_folder import write_nano

GRID = RowSpec(("trained", "gold"), "as_is", ("base", "trained"), (1,))


def metrics_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text())  # type: ignore[no-any-return]


def without_readers(world: Any, out: Path, **changes: Any) -> Any:
    settings = {"rows": ("bm25",), "compare": (), "readers": {}, "checkpoints": {}, "reader_checkpoints": {}}
    return world.config(out, **(settings | changes))


def test_checkpoints_are_told_apart_by_name_and_content_not_by_order_or_place(world: Any, tmp_path: Path) -> None:
    first, second = world.paths["checkpoints"].values()
    moved = replace(first, folder=tmp_path / "elsewhere")
    shutil.copytree(first.folder, moved.folder)

    def identity(**checkpoints: Any) -> str:
        config = without_readers(world, tmp_path / "out", checkpoints=checkpoints)
        return identity_of(request_of(STAGE.name, STAGE.schema, config))

    wanted = identity(a=first, b=second)
    assert identity(b=second, a=first) == identity(a=moved, b=second) == wanted
    swapped = identity(a=replace(second, title=first.title), b=replace(first, title=second.title))
    assert swapped != wanted and identity(a=first) != wanted
    run = world.root / "splits"
    of_first, of_second = identity(a=replace(first, run=run), b=second), identity(a=first, b=replace(second, run=run))
    assert len({of_first, of_second, wanted}) == 3


def test_readers_are_given_the_tiles_as_rendered(world: Any, tmp_path: Path) -> None:
    """Searched at half the sides, read at full size: the answers given the gold tile are those of whole tiles."""
    small = tmp_path / "small"
    run_stage(COMPRESS, CompressConfig(out=small, compression=4.0, tiles=world.paths["tiles"]))
    changes = {"rows": ("trained", "bm25", GRID), "compare": (), "read_questions": 2}
    run_stage(STAGE, world.config(tmp_path / "whole", **changes))
    run_stage(STAGE, world.config(tmp_path / "out", **changes, tiles=small, rendered=world.paths["tiles"]))
    metrics, whole = metrics_of(tmp_path / "out"), metrics_of(tmp_path / "whole")
    for name in ("records/gold.as_is.trained.k1.jsonl", "records/gold.as_is.base.k1.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert metrics["rows"]["trained"]["facts"]["tile_px"] == [160, 128]
    assert whole["rows"]["trained"]["facts"]["tile_px"] == [320, 256]
    tokens, of_whole = ({cell["name"]: cell["tokens"] for cell in found["readers"]} for found in (metrics, whole))
    assert tokens["gold.as_is.base.k1"] == of_whole["gold.as_is.base.k1"]
    assert "a tile of 160 × 128 px at 20 visual tokens" in (tmp_path / "out" / "report.html").read_text()


def test_searched_tiles_that_were_never_rendered_are_an_error(world: Any, tmp_path: Path) -> None:
    first = TileStore.open(world.paths["tiles"])
    write_store(tmp_path / "other" / "store", [first.get(first.tile_ids[0])])
    with pytest.raises(InputError, match=r"rendered: tile .* is not in"):
        run_stage(STAGE, without_readers(world, tmp_path / "out", rendered=tmp_path / "other"))


def test_a_row_of_nano_says_what_it_is_and_what_enlarging_costs(world: Any, tmp_path: Path) -> None:
    """A reader that hasn't learned anything, for tiles compressed 4 times."""
    write_nano(NanoModel(NanoConfig(dimension=64)), tmp_path / "nano", name="nano-untaught", enlarge=2.0)
    checkpoints = {"nano": Checkpoint("nano, untaught", tmp_path / "nano")}
    run_stage(STAGE, without_readers(world, tmp_path / "out", rows=("nano", "bm25"), checkpoints=checkpoints))
    facts = metrics_of(tmp_path / "out")["rows"]["nano"]["facts"]
    assert (facts["family"], facts["enlarge"], facts["visual_tokens"]) == ("nano", 2.0, 640 * 512 // 32**2)
    report = (tmp_path / "out" / "report.html").read_text()
    for said in ("nano, a lexical reader", "accuracy by resolution, not by tokens", "enlarged 2 times, pixel limits"):
        assert said in report, said
