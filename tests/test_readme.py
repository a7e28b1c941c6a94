"""Every command of the README runs: stages and status here, launchers in test_launchers.py, make targets by CI."""

import re
import shlex
from pathlib import Path

import pytest

from tilewright.cli import STAGES, main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
COMMANDS = [line.split("#")[0].strip() for block in BLOCKS for line in block.splitlines() if line.split("#")[0].strip()]


def test_every_command_is_of_a_kind_that_is_run_somewhere() -> None:
    assert {shlex.split(command)[0] for command in COMMANDS} <= {"make", "tilewright", "accelerate", "torchrun"}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {shlex.split(command)[1] for command in COMMANDS if command.startswith("make ")} <= targets


def test_the_line_of_stages_is_complete_and_in_order() -> None:
    named = [
        shlex.split(command)[1]
        for command in COMMANDS
        if command.startswith("tilewright ") and "/smoke.yaml" in command
    ]
    assert named == list(STAGES)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("tilewright ")])
def test_command_runs(
    command: str, smoke_runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_RUNS", str(smoke_runs))
    monkeypatch.chdir(ROOT)
    arguments = shlex.split(command)[1:]
    main([str(smoke_runs) if argument == "runs" else argument for argument in arguments])
    assert capsys.readouterr().out.strip()
