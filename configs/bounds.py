"""Bounds of numbers in configs: checked where a config is made, so that a wrong one costs no work."""

from typing import Any


def check_bounds(config: Any, low: float, high: float | None, *names: str) -> None:
    """Raise ValueError, with key, wanted and found, unless these fields are None or from ``low`` to ``high``."""
    wanted = f"at least {low}" if high is None else f"{low} to {high}"
    for name in names:
        value = getattr(config, name)
        if value is not None and not (low <= value and (high is None or value <= high)):  # NaN is in no range
            raise ValueError(f"{name}: wanted {wanted}, found {value}")
