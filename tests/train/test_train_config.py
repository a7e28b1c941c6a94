"""Settings that can't be meant are refused when the YAML is read."""

from pathlib import Path

import pytest

from tilewright.configs.load import ConfigError, load
from tilewright.train.train_embedder import Config

SMOKE = Path(__file__).parents[2] / "configs/train/train_embedder/smoke.yaml"


@pytest.mark.parametrize(
    "override",
    ["learning_rate=-1.0", "learning_rate=0.0", "max_grad_norm=0.0", "weight_decay=-5.0", "limit_examples=-3",
     "patience=0", "threads=0", "cache_mib=-1", "steps=0", "batch_size=0", "warmup_steps=100000"],
)  # fmt: skip
def test_impossible_settings_are_refused(override: str) -> None:
    load(SMOKE, Config)
    with pytest.raises(ConfigError, match=override.split("=")[0]):
        load(SMOKE, Config, [override])
