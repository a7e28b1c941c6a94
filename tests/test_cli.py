"""The command line as a user meets it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli import STAGES


def tilewright(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("tilewright")), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=cwd, env=os.environ | {"COLUMNS": "200"}
    )


def test_help_lists_the_stages_in_the_order_of_the_line() -> None:
    text = tilewright("--help").stdout
    positions = [text.index(f"\n  {name} ") for name in STAGES]
    assert positions == sorted(positions)


@pytest.mark.parametrize("name", ["make_pages", "render-tiles", "evaluate"])
def test_stage_help_lists_its_keys(name: str) -> None:
    result = tilewright(name, "--help")
    assert result.returncode == 0 and "\n  out: " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["bake"], "invalid choice: 'bake'"),
        (["make_pages", "gone.yaml"], "gone.yaml: no such config file"),
        (["make_pages", "configs/data_gen/make_pages/smoke.yaml", "colour=red"], "unknown keys ['colour']"),
        (["run", "gone.yaml"], "gone.yaml: no such config file"),
        (["status", "gone"], "gone is no folder"),
    ],
)
def test_wrong_calls_get_one_clear_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = tilewright(*arguments, cwd=tmp_path)
    assert result.returncode != 0 and message in result.stderr and "Traceback" not in result.stderr


def test_errors_of_the_system_are_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder is wanted")
    config = "configs/data_gen/make_pages/smoke.yaml"
    for arguments in (
        ["gallery", tmp_path, "--gates", tmp_path],
        ["tiles", "card", tmp_path / "file" / "x", "--name", "x"],
        ["status", tmp_path / ("n" * 300)],
        ["make_pages", config, f"out={tmp_path / ('n' * 300)}"],
    ):
        result = tilewright(*arguments, cwd=tmp_path)
        assert result.returncode == 1 and "error: " in result.stderr and "Traceback" not in result.stderr, result.stderr
