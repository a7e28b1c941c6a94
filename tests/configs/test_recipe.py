"""Recipes and the status of a folder of runs, through the functions the command line calls."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.load import ConfigError
from tilewright.configs.recipe import load_recipe, override, run_recipe
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, partial_of, run_stage
from tilewright.configs.status import status_of


@dataclass(frozen=True)
class Config:
    out: Path
    text: Path = input_path()
    suffix: str = ""


def copy(config: Config, inputs: Inputs, out: Path) -> Counts:
    if config.suffix == "fail":
        raise RuntimeError("planted")
    (out / "text.txt").write_text(inputs["text"].read_text() + config.suffix)
    return {}


STAGES: dict[str, Stage[Any]] = {"first": Stage("first", Config, copy), "second": Stage("second", Config, copy)}


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "source.txt").write_text("hello")
    for name, source in (("first", "../../source.txt"), ("second", "../../runs/first/text.txt")):
        (tmp_path / "data_gen" / name).mkdir(parents=True)
        text = f"kind: stage\nout: ../../runs/{name}\ntext: {source}\n"
        (tmp_path / "data_gen" / name / "run.yaml").write_text(text)
    path = tmp_path / "line.yaml"
    path.write_text(
        "kind: recipe\nstages:\n  - data_gen/first/run.yaml\n"
        "  - {config: data_gen/second/run.yaml, set: [suffix= world]}\n"
    )
    return path


def run(path: Path) -> list[int]:
    announced: list[int] = []
    run_recipe(load_recipe(path, list(STAGES)), STAGES.__getitem__, lambda number, step, out: announced.append(number))
    return announced


def test_stages_run_in_order_and_a_rerun_changes_nothing(recipe: Path, tmp_path: Path) -> None:
    assert run(recipe) == [1, 2]
    result = tmp_path / "runs/second/text.txt"
    assert result.read_text() == "hello world"
    before = result.stat().st_mtime_ns
    run(recipe)
    assert result.stat().st_mtime_ns == before
    assert {status.folder.name: status.state for status in status_of(tmp_path)} == {
        "first": "complete",
        "second": "complete",
    }


def test_overrides_go_to_the_stages_whose_files_have_the_key(recipe: Path, tmp_path: Path) -> None:
    second = tmp_path / "data_gen/second/run.yaml"
    second.write_text(second.read_text() + "suffix: none\n")
    steps = load_recipe(recipe, list(STAGES))
    changed = override(steps, ["suffix=!", "text=source.txt"])
    assert changed[0].overrides == ("text=source.txt",)
    assert changed[1].overrides == ("suffix= world", "suffix=!", "text=source.txt")
    for wrong in ("sufix=!", "suffix", "out=x", "suffix.deeper=1"):
        with pytest.raises(ConfigError, match="wanted key=value"):
            override(steps, [wrong])


def test_a_dotted_override_goes_to_every_stage_with_its_block(recipe: Path, tmp_path: Path) -> None:
    second = tmp_path / "data_gen/second/run.yaml"
    second.write_text(second.read_text() + "llm: {model: m}\n")
    steps = load_recipe(recipe, list(STAGES))
    wanted = ["llm.model=n", "llm.budget.max_calls=3"]  # the file has no budget: its block may
    changed = override(steps, wanted)
    assert changed[0].overrides == () and list(changed[1].overrides[-2:]) == wanted
    for wrong in ("lm.model=n", "text.model=n"):
        with pytest.raises(ConfigError, match="wanted key=value"):
            override(steps, [wrong])


def test_status_tells_stale_partial_and_broken(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    changed = tmp_path / "runs/second/text.txt"
    text, stat = changed.read_text(), changed.stat()
    os.utime(changed)
    (second,) = [status for status in status_of(tmp_path) if status.folder.name == "second"]
    assert second.state == "complete", "another time of change, the same content"
    changed.write_text(text.swapcase())
    (second,) = [status for status in status_of(tmp_path) if status.folder.name == "second"]
    assert second.state == "broken", "of the same size, but of another time: it is hashed"
    os.utime(changed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    (second,) = [status for status in status_of(tmp_path) if status.folder.name == "second"]
    assert second.state == "complete", "of the same size and time: only `verify` shows the change"
    (second,) = [status for status in status_of(tmp_path, verify=True) if status.folder.name == "second"]
    assert second.state == "broken"
    (tmp_path / "source.txt").write_text("changed")
    with pytest.raises(RuntimeError, match="planted"):
        run_stage(STAGES["first"], Config(tmp_path / "runs/third", tmp_path / "source.txt", "fail"))
    (tmp_path / "runs/second/text.txt").unlink()
    states = {status.folder.name: (status.state, status.why) for status in status_of(tmp_path)}
    assert states["first"] == ("stale", "changed since: text")
    assert states["second"][0] == "broken" and states[partial_of(Path("third")).name][0] == "partial"


def test_what_was_made_from_a_stale_stage_is_stale(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    (tmp_path / "source.txt").write_text("changed")
    states = {status.folder.name: (status.state, status.why) for status in status_of(tmp_path)}
    assert states["first"] == ("stale", "changed since: text")
    assert states["second"] == ("stale", "made from first, which is stale")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: stage\n", "wanted `kind: recipe`"),
        ("kind: recipe\nstages: []\n", "list is empty"),
        ("kind: recipe\nstages: [gone.yaml]\n", "no such config file"),
        ("kind: recipe\nstages: [3]\n", "wanted a path"),
        ("kind: recipe\nstages: [{config: data_gen/first/run.yaml, sett: []}]\n", "wanted a path"),
        ("kind: recipe\nstages: [{config: data_gen/first/run.yaml, set: 3}]\n", "list of key=value"),
        ("kind: recipe\nstages: [line.yaml]\n", "is no stage"),
        ("kind: recipe\nstages: 3\n", "wanted a list"),
        ("kind: recipe\nstages: [{recipe: line.yaml}]\n", "includes itself"),
        ("kind: recipe\nstages: [{recipe: gone.yaml}]\n", "no such config file"),
        ("kind: recipe\nstages: [{each: {a: [1], b: [2]}, stages: [x]}]\n", "one name"),
        ("kind: recipe\nstages: [{each: {runs: [1]}, stages: [x]}]\n", "isn't taken"),
        ("kind: recipe\nstages: [{each: {a: []}, stages: [x]}]\n", "wanted a list of whole numbers"),
        ("kind: recipe\nstages: [{each: {a: [1.5]}, stages: [x]}]\n", "wanted a list of whole numbers"),
        ("kind: recipe\nstages: [{each: {a: [1, '1']}, stages: [x]}]\n", "each value once"),
        ("kind: recipe\nstages: [{each: {a: [1, 2]}, stages: [data_gen/first/run.yaml]}]\n", "found it in none"),
        ("kind: recipe\nstages: [{each: {a: [1]}, stages: []}]\n", "list is empty"),
        ("kind: recipe\nstages: [{each: {a: [1]}, stages: ['data_gen/first/${b}.yaml']}]\n", "wanted one of"),
        ("kind: recipe\nstages: [{config: data_gen/first/run.yaml, set: ['out=${runs }/x']}]\n", "wanted one of"),
    ],
)
def test_bad_recipes_are_refused(recipe: Path, text: str, message: str) -> None:
    recipe.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe(recipe, list(STAGES))


def test_each_repeats_its_stages_and_recipe_includes_another(recipe: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer.yaml"
    outer.write_text(
        "kind: recipe\nstages:\n  - recipe: line.yaml\n"
        "  - each: {seed: [1, 2]}\n    stages:\n"
        "      - each: {arm: [first, second]}\n        stages:\n"
        "          - {config: 'data_gen/${arm}/run.yaml', set: ['out=${runs}/${arm}_${seed}', 'suffix=${seed}']}\n"
    )
    steps = load_recipe(outer, list(STAGES))
    assert [(step.stage, step.overrides) for step in steps[:2]] == [("first", ()), ("second", ("suffix= world",))]
    assert [step.overrides for step in steps[2:]] == [
        (f"out=${{runs}}/{arm}_{seed}", f"suffix={seed}") for seed in (1, 2) for arm in ("first", "second")
    ]
    assert [step.stage for step in steps[2:]] == ["first", "second"] * 2


def test_what_each_varies_is_not_overridden_for_all(recipe: Path) -> None:
    recipe.write_text(
        "kind: recipe\nstages:\n  - each: {seed: [1, 2]}\n    stages:\n"
        "      - {config: data_gen/first/run.yaml, set: ['out=${runs}/${seed}', 'suffix=${seed}']}\n"
    )
    config = recipe.parent / "data_gen/first/run.yaml"
    config.write_text(config.read_text() + "suffix: none\n")
    steps = load_recipe(recipe, list(STAGES))
    with pytest.raises(ConfigError, match="'suffix=3': wanted a key that `each` doesn't vary"):
        override(steps, ["suffix=3"])
    assert {step.overrides[-1] for step in override(steps, ["text=x.txt"])} == {"text=x.txt"}


def test_two_steps_for_one_folder_cost_no_work(recipe: Path, tmp_path: Path) -> None:
    step = "{config: data_gen/first/run.yaml, set: [suffix=%s]}"
    recipe.write_text(f"kind: recipe\nstages: [{step % 1}, {step % 2}]\n")
    with pytest.raises(ConfigError, match="found that of an earlier step"):
        run(recipe)
    assert not (tmp_path / "runs").exists()
    recipe.write_text(f"kind: recipe\nstages: [{step % 1}, {step % 1}]\n")
    assert run(recipe) == [1, 2], "the same step again is the same result"


def test_a_typo_in_the_last_config_costs_no_work(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "data_gen/second/run.yaml").write_text("kind: stage\nout: x\ntext: y\nsufix: z\n")
    with pytest.raises(ConfigError, match="did you mean 'suffix'"):
        run(recipe)
    assert not (tmp_path / "runs").exists()
