"""What the launcher asked for, by the environment that `accelerate launch` sets; what can't be right is refused."""

import os
from collections.abc import Mapping
from typing import Literal

from tilewright.configs.errors import InputError
from tilewright.train.grad_cache import Chunking

Launched = Literal["replicated", "zero2", "zero3", "fsdp2"]


def launched_as(environment: Mapping[str, str] = os.environ) -> Launched:
    """Who holds which weights, by accelerate's environment; `replicated` without a launcher, or as MULTI_GPU.

    Raises InputError for what accelerate knows and this training doesn't.
    """
    deepspeed, fsdp = _flag(environment, "ACCELERATE_USE_DEEPSPEED"), _flag(environment, "ACCELERATE_USE_FSDP")
    for name in ("ACCELERATE_USE_MEGATRON_LM", "ACCELERATE_USE_PARALLELISM_CONFIG", "ACCELERATE_USE_TP"):
        if _flag(environment, name):
            raise InputError(
                f"{name}: wanted false, found true: training knows DDP, DeepSpeed ZeRO-2 and -3, and FSDP2"
            )
    if deepspeed and fsdp:
        raise InputError("wanted DeepSpeed or FSDP, found both ACCELERATE_USE_DEEPSPEED and ACCELERATE_USE_FSDP")
    if deepspeed:
        stage = environment.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2")
        _wanted("deepspeed_config: zero_stage", stage, ("2", "3"))
        return "zero2" if stage == "2" else "zero3"
    if fsdp:
        _wanted("fsdp_config: fsdp_version", environment.get("FSDP_VERSION", "1"), ("2",))
        return "fsdp2"
    return "replicated"


def check_launch(
    *,
    world: int,
    batch_size: int,
    chunking: Chunking,
    use_dora: bool = False,
    ema: bool = False,
    image_queries: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Launched:
    """``launched_as``, after refusing launcher settings that contradict the run's config or can't be right.

    ``world``: ranks; ``image_queries``: some queries carry a picture. Raises InputError naming setting, wanted, found.
    """
    launched = launched_as(environment)
    _check_accelerate(environment)
    if launched.startswith("zero"):
        _check_deepspeed(environment)
    if launched == "fsdp2":
        _check_fsdp(environment)
    if launched == "replicated":
        return launched
    if batch_size < world:
        raise InputError(
            f"batch_size: wanted at least one query for each of {world} ranks ({launched}), found {batch_size}"
        )
    if chunking.keep_mib != 0:
        raise InputError(
            f"chunking: keep_mib: wanted 0 with {launched}, where kept graphs would need other ranks' weights, found"
            f" {chunking.keep_mib}"
        )
    if image_queries:
        raise InputError(
            f"queries: wanted texts alone with {launched}: ranks would pass through other layers, found pictures"
        )
    if ema and launched != "zero2":
        raise InputError(f"ema: wanted none with {launched}, whose ranks hold parts of weights: use DDP or ZeRO-2")
    if use_dora and launched == "zero3":
        raise InputError(
            "use_dora: wanted false with zero3, which takes frozen weights apart, found true: use zero2 or DDP"
        )
    return launched


def _check_accelerate(environment: Mapping[str, str]) -> None:
    """Settings of accelerate's that the training loop has under names of its own."""
    _wanted("mixed_precision", environment.get("ACCELERATE_MIXED_PRECISION", "no"), ("no",), "`precision` is the run's")
    steps = environment.get("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "1")
    _wanted(
        "gradient_accumulation_steps", steps, ("1", "auto"), "GradCache takes batches apart: `chunking` is the run's"
    )
    backend = environment.get("ACCELERATE_DYNAMO_BACKEND", "no").lower()
    _wanted("dynamo_backend", backend, ("no",), "training isn't compiled")


def _check_deepspeed(environment: Mapping[str, str]) -> None:
    own = "ACCELERATE_DEEPSPEED_CONFIG_FILE"
    if environment.get(own, "none").lower() != "none":
        raise InputError(
            f"deepspeed_config_file: wanted none (the run's config has batch and optimiser), found {environment[own]}"
        )
    clipping = environment.get("ACCELERATE_GRADIENT_CLIPPING", "auto")
    _wanted("deepspeed_config: gradient_clipping", clipping, ("auto", "none"), "`max_grad_norm` is the run's")
    for what in ("optimizer", "param"):
        device = environment.get(f"ACCELERATE_DEEPSPEED_OFFLOAD_{what.upper()}_DEVICE", "none")
        _wanted(f"deepspeed_config: offload_{what}_device", device, ("none",), "weights stay on the device")
    init = environment.get("ACCELERATE_DEEPSPEED_ZERO3_INIT", "false").lower()
    _wanted("deepspeed_config: zero3_init_flag", init, ("false",), "the encoder is loaded whole, then taken apart")


def _check_fsdp(environment: Mapping[str, str]) -> None:
    for name, why in (
        ("OFFLOAD_PARAMS", "weights stay on the device"),
        ("ACTIVATION_CHECKPOINTING", "`gradient_checkpointing` is the run's"),
    ):
        _wanted(f"fsdp_config: fsdp_{name.lower()}", environment.get(f"FSDP_{name}", "false").lower(), ("false",), why)


def _wanted(setting: str, found: str, allowed: tuple[str, ...], why: str = "") -> None:
    if found not in allowed:
        reason = f" ({why})" if why else ""
        raise InputError(f"accelerate's {setting}: wanted {' or '.join(allowed)}{reason}, found {found}")


def _flag(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() in ("1", "true", "yes")
