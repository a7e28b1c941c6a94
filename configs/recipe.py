"""A recipe: a list of stage configs run in order, resumable as a whole.

```yaml
kind: recipe
stages:
  - data_gen/make_pages/quickstart.yaml          # relative to the recipe; <package>/<stage>/<run>.yaml names the module
  - config: train/train_embedder/quickstart.yaml
    set: [steps=50]                              # overrides of this recipe
  - recipe: recipes/two_rounds.yaml              # all stages of another recipe, in its place
  - each: {seed: [1, 2, 3]}                      # the stages below once a value; ${seed} in them stands for it
    stages:
      - config: train/train_embedder/quickstart.yaml
        set: ["out=${runs}/embedder_${seed}", "seed=${seed}"]
```
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.load import ConfigError, load, read_yaml
from tilewright.configs.stage import Stage, run_stage


@dataclass(frozen=True)
class Step:
    """One stage of a recipe: its name, its config file, overrides, and keys that ``each`` gives their values."""

    stage: str
    config: Path
    overrides: tuple[str, ...] = ()
    each: tuple[str, ...] = ()


def load_recipe(path: Path, stages: Sequence[str]) -> list[Step]:
    """The steps of a recipe file. Raises ConfigError for a file that is no recipe or names an unknown stage."""
    return _Reader(tuple(stages)).recipe(path, ())


@dataclass(frozen=True)
class _Reader:
    """Reads recipes; ``stages``: the names there are."""

    stages: tuple[str, ...]

    def recipe(self, path: Path, above: tuple[Path, ...]) -> list[Step]:
        """The steps of ``path``, which the recipes ``above`` include one another to."""
        if path.resolve() in above:
            raise ConfigError(f"{path}: includes itself, by way of {[str(recipe) for recipe in above]}")
        data = read_yaml(path)
        if data["kind"] != "recipe" or set(data) != {"kind", "stages"}:
            raise ConfigError(f"{path}: wanted `kind: recipe` and a list `stages`, found {sorted(data)}")
        return self.steps(path, str(path), data["stages"], {}, (*above, path.resolve()))

    def steps(
        self, path: Path, where: str, entries: Any, values: Mapping[str, str], above: tuple[Path, ...]
    ) -> list[Step]:
        if not isinstance(entries, list):
            raise ConfigError(f"{where}: wanted a list `stages`, found {entries!r}")
        if not entries:
            raise ConfigError(f"{where}: stages: the list is empty")
        found = []
        for number, entry in enumerate(entries):
            found += self.entry(path, f"{where}:stages[{number}]", entry, values, above)
        return found

    def entry(
        self, path: Path, where: str, entry: Any, values: Mapping[str, str], above: tuple[Path, ...]
    ) -> list[Step]:
        entry = {"config": entry} if isinstance(entry, str) else entry
        keys = set(entry) if isinstance(entry, Mapping) else set()
        if keys == {"recipe"}:
            return self.recipe(path.parent / str(entry["recipe"]), above)
        if keys == {"each", "stages"}:
            found = [
                self.steps(path, where, entry["stages"], {**values, **more}, above)
                for more in _each(where, entry["each"], values)
            ]
            if len(found) > 1 and found[0] == found[1]:
                raise ConfigError(
                    f"{where}.each: wanted ${{{next(iter(entry['each']))}}} in `stages`, found it in none"
                )
            return [step for steps in found for step in steps]
        if not {"config"} <= keys <= {"config", "set"}:
            raise ConfigError(
                f"{where}: wanted a path, a mapping of `config` and `set`, of `each` and `stages`, or a `recipe`, "
                f"found {entry!r}"
            )
        return [self.step(path, where, entry, values)]

    def step(self, path: Path, where: str, entry: Mapping[str, Any], values: Mapping[str, str]) -> Step:
        overrides = entry.get("set", [])
        if not isinstance(overrides, list) or not all(isinstance(item, str) for item in overrides):
            raise ConfigError(f"{where}.set: wanted a list of key=value, found {overrides!r}")
        config = path.parent / _filled(where, str(entry["config"]), values)
        if not config.is_file():
            raise ConfigError(f"{where}: no such config file: {config}")
        if config.parent.name not in self.stages:
            raise ConfigError(f"{where}: {config.parent.name!r} is no stage; stages are {list(self.stages)}")
        filled = tuple(_filled(where, item, values) for item in overrides)
        each = [item.partition("=")[0] for item, text in zip(overrides, filled, strict=True) if item != text]
        return Step(config.parent.name, config, filled, tuple(each))


def _each(where: str, each: Any, values: Mapping[str, str]) -> list[dict[str, str]]:
    """One mapping of a name to its value for each value. Raises ConfigError for anything but one name with a list."""
    if not isinstance(each, Mapping) or len(each) != 1:
        raise ConfigError(f"{where}.each: wanted one name with its list of values, found {each!r}")
    ((name, found),) = each.items()
    if not re.fullmatch(r"[a-z_]+", name) or name in ("runs", *values):
        raise ConfigError(f"{where}.each: wanted a name of small letters that isn't taken, found {name!r}")
    if not isinstance(found, list) or not found or not all(type(value) in (int, str) for value in found):
        raise ConfigError(f"{where}.each.{name}: wanted a list of whole numbers or strings, found {found!r}")
    if len({str(value) for value in found}) < len(found):
        raise ConfigError(f"{where}.each.{name}: wanted each value once, found {found!r}")
    return [{name: str(value)} for value in found]


def _filled(where: str, text: str, values: Mapping[str, str]) -> str:
    """``text`` with ``${name}`` replaced; ``${runs}`` stays for the config. Raises ConfigError for an unknown name."""
    unknown = next((name for name in re.findall(r"\$\{([^}]*)\}", text) if name not in ("runs", *values)), None)
    if unknown is not None:
        raise ConfigError(f"{where}: ${{{unknown}}}: wanted one of {['runs', *values]}, found it in {text!r}")
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    return text


def override(steps: Sequence[Step], overrides: Sequence[str]) -> list[Step]:
    """The steps with ``key=value`` for all stages whose config file has that key, or the block of a dotted one.

    ``llm.api_key_env=KEY`` goes to every stage with an ``llm`` block. Raises ConfigError for a key that no file has, or
    that ``each`` gives its values: runs of several seeds would be runs of one.
    """
    for text in overrides:
        key, equals, _ = text.partition("=")
        having = [step for step in steps if equals and _has(read_yaml(step.config), key.split("."))]
        if not having or key == "out":
            raise ConfigError(f"{text!r}: wanted key=value with a key (other than `out`) that a config of the list has")
        varied = next((step for step in having if key in step.each), None)
        if varied is not None:
            raise ConfigError(
                f"{text!r}: wanted a key that `each` doesn't vary; it does in the steps of {varied.config}"
            )
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

    All configs are loaded before the first stage starts: a typo in the last one costs no hour. Raises ConfigError if
    two steps would write different results into one folder.
    """
    loaded = [
        (step, stage := find_stage(step.stage), load(step.config, stage.config, step.overrides)) for step in steps
    ]
    written: dict[Path, tuple[str, Any]] = {}
    for step, _, config in loaded:
        if written.setdefault(config.out.resolve(), (step.stage, config)) != (step.stage, config):
            raise ConfigError(
                f"{step.config}: out: wanted a folder of its own, found that of an earlier step: {config.out}"
            )
    folders = []
    for number, (step, stage, config) in enumerate(loaded, start=1):
        announce(number, step, config.out)
        run_stage(stage, config)
        folders.append(config.out)
    return folders
