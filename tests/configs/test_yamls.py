"""Every YAML that ships loads into its stage's Config, states its command, and every stage can be smoked."""

import re
from pathlib import Path

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file

from tilewright.cli import STAGES, find_stage
from tilewright.configs.load import KINDS, load
from tilewright.configs.recipe import load_recipe

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = sorted(CONFIGS.rglob("*.yaml"))


def kind_of(path: Path) -> str | None:
    """The key ``kind``; accelerate refuses keys it doesn't know, so its files say it in a comment."""
    text = path.read_text(encoding="utf-8")
    comment = re.search(r"^# kind: accelerate\b", text, re.MULTILINE)
    kind: str | None = "accelerate" if comment else yaml.safe_load(text).get("kind")
    return kind


def of_kind(kind: str) -> list[Path]:
    return [path for path in FILES if kind_of(path) == kind]


def test_every_file_has_a_kind_that_a_test_here_covers() -> None:
    assert sum(len(of_kind(kind)) for kind in KINDS) == len(FILES) > 0


@pytest.mark.parametrize("path", of_kind("stage"), ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_stage_config_loads_and_says_how_to_run_it(path: Path) -> None:
    package, name = path.relative_to(CONFIGS).parts[:2]
    assert STAGES[name][0] == package
    load(path, find_stage(name).config)
    head = [line for line in path.read_text(encoding="utf-8").splitlines()[:4] if line.startswith("# ")]
    assert len(head) >= 2 and f"configs/{package}/{name}/{path.name}" in head[0], "line 1 gives the command"


@pytest.mark.parametrize("path", of_kind("recipe"), ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_recipe_names_configs_that_load(path: Path) -> None:
    for step in load_recipe(path, list(STAGES)):
        load(step.config, find_stage(step.stage).config, step.overrides)


@pytest.mark.parametrize("path", of_kind("accelerate"), ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_accelerate_file_is_accepted_by_accelerate_and_says_how_to_use_it(path: Path) -> None:
    load_config_from_file(str(path))
    assert f"accelerate launch --config_file configs/accelerate/{path.name}" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_has_a_smoke_config(name: str) -> None:
    assert (CONFIGS / STAGES[name][0] / name / "smoke.yaml").is_file()
