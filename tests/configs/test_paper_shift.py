"""The recipes of domain shift and of LoRA on both towers: their stages fit together, and arms differ in one thing."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli import STAGES, find_stage
from tilewright.configs.load import load
from tilewright.configs.recipe import load_recipe
from tilewright.configs.requests import inputs_of
from tilewright.data_gen import make_pages
from tilewright.eval import evaluate
from tilewright.train import embedder_config

RECIPES = Path(__file__).parents[2] / "configs/recipes"
DOMAINS = ("wikipedia", "cppreference")


def configs_of(name: str) -> list[tuple[str, Any]]:
    """(stage, config) of every step of a recipe."""
    steps = load_recipe(RECIPES / f"{name}.yaml", list(STAGES))
    return [(step.stage, load(step.config, find_stage(step.stage).config, step.overrides)) for step in steps]


@pytest.mark.parametrize("name", ["shift", "lora"])
def test_every_input_is_the_output_of_an_earlier_stage(name: str) -> None:
    outputs: list[Path] = []
    for stage, config in configs_of(name):
        for key, value in inputs_of(config).items():
            for path in value if isinstance(value, tuple) else (value,):
                made = any(path == out or path.is_relative_to(out) for out in outputs)
                assert made or isinstance(config, make_pages.Config), f"{stage}.{key}: nothing makes {path}"
        assert config.out not in outputs, f"{stage}: two stages write {config.out}"
        outputs.append(config.out)


def test_both_domains_are_made_trained_on_and_asked_alike() -> None:
    """From the tiles on, whatever is done to one domain is done to the other, with the same settings."""
    done: dict[str, list[str]] = {domain: [] for domain in DOMAINS}
    for stage, config in configs_of("shift"):
        if stage in ("make_pages", "make_nano", "render_tiles") or config.out.name == "embedder_few_1":
            continue
        (domain,) = [domain for domain in DOMAINS if config.out.parent.name == domain]
        paths = {"checkpoints", "checkpoint_folders"}  # both evaluations ask all embedders
        plain = {key: value for key, value in vars(config).items() if key not in paths}
        done[domain].append(f"{stage} {plain}".replace(f"shift/{domain}", "shift/DOMAIN"))
    assert done["wikipedia"] == done["cppreference"] and len(done["wikipedia"]) >= 13


def test_an_evaluation_of_shift_asks_every_trained_embedder_on_both_test_sets() -> None:
    found = configs_of("shift")
    trained = {config.out / "checkpoint" for _, config in found if isinstance(config, embedder_config.Config)}
    asked = [config for _, config in found if isinstance(config, evaluate.Config)]
    assert len(asked) == len(DOMAINS) and asked[0].checkpoints == asked[1].checkpoints
    assert trained < set(asked[0].checkpoint_folders)


def test_arms_of_lora_differ_in_their_groups_alone_and_seeds_in_the_seed() -> None:
    found = configs_of("lora")
    runs = [config for _, config in found if isinstance(config, embedder_config.Config) and config.adapters]
    arms = {config.out.name: tuple(config.adapters) for config in runs}
    wanted = {"llm": ("llm_attn",), "vit": ("vit_attn", "vit_mlp"), "both": ("llm_attn", "vit_attn", "vit_mlp")}
    assert arms == {f"{arm}_{seed}": groups for arm, groups in wanted.items() for seed in (1, 2, 3)}
    same = {repr(dataclasses.replace(config, out=Path(), adapters=runs[0].adapters, seed=0)) for config in runs}
    assert len(same) == 1
    assert all(config.out.name.endswith(f"_{config.seed}") for config in runs)
    (evaluation,) = [config for _, config in found if isinstance(config, evaluate.Config)]
    assert {row for rows in evaluation.seeds.values() for row in rows} == {"before", *arms}
    assert {config.out / "checkpoint" for config in runs} < set(evaluation.checkpoint_folders)
