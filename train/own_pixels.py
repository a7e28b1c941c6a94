"""Pixel policies on disk: transformers' image processor where it can follow one, else a file of our own."""

import dataclasses
import json
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.configs.stage import write_atomically
from tilewright.data_gen.records import from_json
from tilewright.train.pixels import PixelPolicy, image_processor_of

POLICY_FILE = "preprocessor_config.json"
_KEY = "tilewright_pixel_policy"  # no image_processor_type: transformers has none that only pads


def save_policy(policy: PixelPolicy, folder: Path) -> None:
    """Write ``preprocessor_config.json``, as transformers' image processor if it can follow ``policy``."""
    if policy.fit == "resize":
        image_processor_of(policy).save_pretrained(folder)
    else:
        write_atomically(folder / POLICY_FILE, json.dumps({_KEY: dataclasses.asdict(policy)}, indent=1) + "\n")


def load_own_policy(folder: Path, options: dict[str, int | None]) -> PixelPolicy:
    """The policy that ``save_policy`` wrote in our form, with the ``max_pixels`` of ``options`` if there is one.

    Raises InputError for another file, and for another ``min_pixels``.
    """
    path = folder / POLICY_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))[_KEY]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: wanted a JSON object with {_KEY}, found none ({error!r})") from error
    policy = from_json(PixelPolicy, data, str(path))
    limits = {name: options[name] for name in ("min_pixels", "max_pixels") if options[name] is not None}
    return dataclasses.replace(policy, **limits)  # type: ignore[arg-type]  # those that are None stay behind
