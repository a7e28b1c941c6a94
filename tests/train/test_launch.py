"""Accelerate's configuration files and the environment it makes of them: understood, or refused."""

import argparse
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import (
    prepare_deepspeed_cmd_env,
    prepare_multi_gpu_env,
    prepare_simple_launcher_cmd_env,
)

from tilewright.configs.errors import InputError
from tilewright.train.grad_cache import Chunking
from tilewright.train.launch import check_launch, launched_as

CONFIGS = Path(__file__).parents[2] / "configs" / "accelerate"
FILES = sorted(CONFIGS.glob("*.yaml"))
WANTED = {
    "cpu": "replicated",
    "single": "replicated",
    "ddp": "replicated",
    "zero2": "zero2",
    "zero3": "zero3",
    "fsdp2": "fsdp2",
}
FITTING: dict[str, Any] = {"world": 2, "batch_size": 4, "chunking": Chunking(rows=2)}
ZERO2 = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2"}
ZERO3 = ZERO2 | {"ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}
FSDP2 = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}


def launcher_environment(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What `accelerate launch --config_file PATH` puts into a process's environment."""
    for name in list(os.environ):
        if name.startswith(("ACCELERATE_", "FSDP_")):
            monkeypatch.delenv(name)
    arguments: argparse.Namespace = launch_command_parser().parse_args(["--config_file", str(path), "-m", "a.module"])
    arguments, defaults, _ = _validate_launch_command(arguments)
    if arguments.use_deepspeed:
        arguments.deepspeed_fields_from_accelerate_config = ",".join(
            defaults.deepspeed_config
        )  # as launch_command does
        return dict(prepare_deepspeed_cmd_env(arguments)[1])
    if arguments.use_fsdp or arguments.multi_gpu:
        return dict(prepare_multi_gpu_env(arguments))
    return dict(prepare_simple_launcher_cmd_env(arguments)[1])


def test_every_file_has_its_expectation_here() -> None:
    assert {path.stem for path in FILES} == WANTED.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_accelerate_reads_the_file_and_training_understands_what_it_makes_of_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = load_config_from_file(str(path)).to_dict()  # raises for unknown keys at the top
    for name, value in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        found = read[name]
        assert str(getattr(found, "value", found)) == str(value), name
    environment = launcher_environment(path, monkeypatch)
    assert check_launch(**FITTING, environment=environment) == WANTED[path.stem]


@pytest.mark.parametrize("name", ["deepspeed_config", "fsdp_config"])
def test_launcher_knows_every_key_of_the_nested_settings(name: str) -> None:
    parser = launch_command_parser()
    known = {action.dest for action in parser._actions}
    nested = [yaml.safe_load(path.read_text(encoding="utf-8")).get(name, {}) for path in FILES]
    assert any(nested)
    for key in {key for settings in nested for key in settings}:
        assert key in known, key


@pytest.mark.parametrize("launched", [{}, ZERO2, ZERO3, FSDP2], ids=str)
@pytest.mark.parametrize(
    ("setting", "found", "message"),
    [
        ("ACCELERATE_MIXED_PRECISION", "bf16", "mixed_precision: wanted no .*found bf16"),
        ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4", "gradient_accumulation_steps: wanted 1 .*found 4"),
        ("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR", "dynamo_backend: wanted no .*found inductor"),
        ("ACCELERATE_USE_MEGATRON_LM", "true", "ACCELERATE_USE_MEGATRON_LM: wanted false, found true"),
    ],
)
def test_settings_that_the_run_has_itself_are_refused(
    launched: dict[str, str], setting: str, found: str, message: str
) -> None:
    assert check_launch(**FITTING, environment=launched)
    with pytest.raises(InputError, match=message):
        check_launch(**FITTING, environment=launched | {setting: found})


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (ZERO2 | FSDP2, "DeepSpeed or FSDP, found both"),
        (ZERO2 | {"ACCELERATE_DEEPSPEED_ZERO_STAGE": "1"}, "zero_stage: wanted 2 or 3, found 1"),
        (ZERO2 | {"ACCELERATE_DEEPSPEED_CONFIG_FILE": "ds.json"}, "deepspeed_config_file: wanted none"),
        (ZERO2 | {"ACCELERATE_GRADIENT_CLIPPING": "1.0"}, "gradient_clipping: .*found 1.0"),
        (ZERO3 | {"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE": "cpu"}, "offload_optimizer_device: .*found cpu"),
        (ZERO3 | {"ACCELERATE_DEEPSPEED_ZERO3_INIT": "true"}, "zero3_init_flag: wanted false"),
        ({"ACCELERATE_USE_FSDP": "true"}, "fsdp_version: wanted 2, found 1"),
        (FSDP2 | {"FSDP_OFFLOAD_PARAMS": "true"}, "fsdp_offload_params: wanted false"),
        (FSDP2 | {"FSDP_ACTIVATION_CHECKPOINTING": "true"}, "fsdp_activation_checkpointing: wanted false"),
    ],
)
def test_settings_that_training_does_not_know_are_refused(environment: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_launch(**FITTING, environment=environment)


@pytest.mark.parametrize(
    ("environment", "changes", "message"),
    [
        (ZERO2, {"world": 8}, "batch_size: wanted at least one query for each of 8 ranks .*found 4"),
        (FSDP2, {"world": 5}, "for each of 5 ranks"),
        (ZERO3, {"chunking": Chunking(rows=2, keep_mib=64)}, "keep_mib: wanted 0 with zero3.*found 64"),
        (FSDP2, {"chunking": Chunking(keep_mib=None)}, "keep_mib: wanted 0 with fsdp2.*found None"),
        (ZERO2, {"image_queries": True}, "queries: wanted texts alone with zero2"),
        (ZERO3, {"ema": True}, "ema: wanted none with zero3"),
        (FSDP2, {"ema": True}, "ema: wanted none with fsdp2"),
        (ZERO3, {"use_dora": True}, "use_dora: wanted false with zero3"),
    ],
)
def test_combinations_that_cannot_be_right_are_refused_only_where_they_are_wrong(
    environment: dict[str, str], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        check_launch(**(FITTING | changes), environment=environment)
    assert check_launch(**(FITTING | changes), environment={}) == "replicated"


def test_without_a_launcher_weights_are_replicated() -> None:
    assert launched_as({}) == "replicated"
    assert check_launch(**(FITTING | {"ema": True}), environment=ZERO2) == "zero2"
