"""A recipe: a list of stage configs run in order, resumable as a whole.

```yaml
kind: recipe
stages:
  - data_gen/make_pages/quickstart.yaml          # relative to the recipe; <package>/<stage>/<run>.yaml names the module
  - config: train/train_embedder/quickstart.yaml
    set: [steps=50]                              # overrides of this recipe
```
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.load import ConfigError, load, read_yaml
from tilewright.configs.stage import Stage, run_stage


@dataclass(frozen=True)
class Step:
    """One stage of a recipe: its name, its config file, and overrides."""

    stage: str
    config: Path
    overrides: tuple[str, ...] = ()


def load_recipe(path: Path, stages: Sequence[str]) -> list[Step]:
    """The steps of a recipe file. Raises ConfigError for a file that is no recipe or names an unknown stage."""
    data = read_yaml(path)
    if data["kind"] != "recipe" or set(data) != {"kind", "stages"} or not isinstance(data["stages"], list):
        raise ConfigError(f"{path}: wanted `kind: recipe` and a list `stages`, found {sorted(data)}")
    if not data["stages"]:
        raise ConfigError(f"{path}: stages: the list is empty")
    return [_step(path, number, entry, stages) for number, entry in enumerate(data["stages"])]


def _step(path: Path, number: int, entry: Any, stages: Sequence[str]) -> Step:
    where = f"{path}:stages[{number}]"
    entry = {"config": entry} if isinstance(entry, str) else entry
    if not isinstance(entry, Mapping) or not {"config"} <= set(entry) <= {"config", "set"}:
        raise ConfigError(f"{where}: wanted a path, or a mapping of `config` and `set`, found {entry!r}")
    overrides = entry.get("set", [])
    if not isinstance(overrides, list) or not all(isinstance(item, str) for item in overrides):
        raise ConfigError(f"{where}.set: wanted a list of key=value, found {overrides!r}")
    config = path.parent / str(entry["config"])
    if not config.is_file():
        raise ConfigError(f"{where}: no such config file: {config}")
    if config.parent.name not in stages:
        raise ConfigError(f"{where}: {config.parent.name!r} is no stage; stages are {list(stages)}")
    return Step(config.parent.name, config, tuple(overrides))


def override(steps: Sequence[Step], overrides: Sequence[str]) -> list[Step]:
    """The steps with ``key=value`` for all stages whose config file has that key, or the block of a dotted one.

    ``llm.api_key_env=KEY`` goes to every stage with an ``llm`` block. Raises ConfigError for a key that no file has.
    """
    for text in overrides:
        key, equals, _ = text.partition("=")
        having = [step for step in steps if equals and _has(read_yaml(step.config), key.split("."))]
        if not having or key == "out":
            raise ConfigError(f"{text!r}: wanted key=value with a key (other than `out`) that a config of the list has")
        steps = [
            dataclasses.replace(step, overrides=(*step.overrides, text)) if step in having else step for step in steps
        ]
    return list(steps)


def _has(data: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether a file has a key, or of a dotted one its block; what the block may hold is checked when it's loaded."""
    return names[0] in data and (len(names) == 1 or isinstance(data[names[0]], Mapping))


def run_recipe(
    steps: Sequence[Step],
    find_stage: Callable[[str], Stage[Any]],
    announce: Callable[[int, Step, Path], None],
) -> list[Path]:
    """Run the steps in order; return their output folders. Finished ones return at once, so a rerun goes on.

    All configs are loaded before the first stage starts: a typo in the last one costs no hour.
    """
    loaded = [
        (step, stage := find_stage(step.stage), load(step.config, stage.config, step.overrides)) for step in steps
    ]
    folders = []
    for number, (step, stage, config) in enumerate(loaded, start=1):
        announce(number, step, config.out)
        run_stage(stage, config)
        folders.append(config.out)
    return folders
