"""A request: which stage, with which settings, on which inputs. Equal requests have equal results.

Roles of config fields: ``input_path()`` marks paths whose content counts; ``execution()`` marks what changes how a
stage runs but not what it writes (workers, tolerated errors), so it is no part of the request.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from tilewright.configs.digests import canonical_json, digest_input, digest_text, plain

_ROLE = "tilewright_role"


def input_path(**options: Any) -> Any:
    """A config field (Path, Path | None or a tuple of paths) whose content is part of the request's identity."""
    return field(metadata={_ROLE: "input"}, **options)


def execution(**options: Any) -> Any:
    """A config field that can't change a result, so a finished or partial folder stays valid when it changes."""
    return field(metadata={_ROLE: "execution"}, **options)


def request_of(stage: str, schema: int, config: Any) -> dict[str, Any]:
    """What a run is identified by: stage, schema, settings without paths and execution fields, input digests."""
    inputs = {entry.name: _digest(getattr(config, entry.name)) for entry in _fields(config, "input")}
    settings = {key: value for key, value in _settings(config).items() if key != "out" and key not in inputs}
    return json.loads(  # type: ignore[no-any-return]
        canonical_json({"stage": stage, "schema": schema, "config": settings, "inputs": inputs})
    )


def inputs_of(config: Any) -> dict[str, Any]:
    """{field name: path or paths} of a config's inputs, without those left out."""
    values = {entry.name: getattr(config, entry.name) for entry in _fields(config, "input")}
    return {name: value for name, value in values.items() if value is not None}


def identity_of(request: Mapping[str, Any]) -> str:
    """The request's digest, 64 hex characters."""
    return digest_text(canonical_json(request))


def differences(found: Any, wanted: Any, key: str = "") -> list[tuple[str, str, str]]:
    """Where two requests differ: (dotted key, stored, asked for)."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = sorted(found.keys() | wanted.keys())
        nested = [
            differences(found.get(name, "nothing"), wanted.get(name, "nothing"), f"{key}.{name}".strip("."))
            for name in keys
        ]
        return [row for rows in nested for row in rows]
    return [] if found == wanted else [(key, json.dumps(found), json.dumps(wanted))]


def another_request(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The message for a folder that holds another request: what differs, and what to do."""
    lines = [f"  {key}: stored {old}, asked for {new}" for key, old, new in differences(found, wanted)]
    return "\n".join([f"{folder} holds another request:", *lines, "choose another `out`, or delete the folder"])


def _fields(config: Any, role: str) -> list[dataclasses.Field[Any]]:
    return [entry for entry in dataclasses.fields(config) if entry.metadata.get(_ROLE) == role]


def _settings(value: Any) -> Any:
    """A config as plain values, execution fields left out at every depth."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        left_out = {entry.name for entry in _fields(value, "execution")}
        names = [entry.name for entry in dataclasses.fields(value) if entry.name not in left_out]
        return {name: _settings(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key: _settings(item) for key, item in value.items()}
    return [_settings(item) for item in value] if isinstance(value, tuple) else plain(value)


def _digest(value: Path | tuple[Path, ...] | None) -> Any:
    if value is None:
        return None
    return [digest_input(path) for path in value] if isinstance(value, tuple) else digest_input(value)
