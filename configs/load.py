"""Strict typed YAML: a file maps 1:1 to a frozen dataclass; whatever doesn't fit raises with file, key and a hint.

Rules for values of type ``Path``: in a YAML they are relative to the YAML's own folder, on the command line to the
working directory. ``${runs}`` stands for the folder of run outputs: ``$TILEWRIGHT_RUNS``, else ``./runs``.
"""

import dataclasses
import difflib
import math
import os
import re
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import yaml

from tilewright.configs.errors import UserError

C = TypeVar("C")
KINDS = ("stage", "recipe", "accelerate")
_EXPONENT_WITHOUT_POINT = re.compile(r"[-+]?\d+[eE][-+]?\d+$|[-+]?\d+\.\d*[eE]\d+$")


class ConfigError(UserError, ValueError):
    """A config file or override that can't be used; the message says where, what was wanted and what was found."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice (PyYAML keeps the last one in silence)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise ConfigError(f"line {key_node.start_mark.line + 1}: key {key!r} is not a string; quote it")
            if key in seen:
                raise ConfigError(f"line {key_node.start_mark.line + 1}: key {key!r} stands twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read one YAML mapping whose ``kind`` is one of KINDS. Raises ConfigError."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such config file")
    try:
        # a subclass of SafeLoader: no arbitrary objects are constructed
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: text, keys, impossible dates
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: wanted a mapping at the top, found {type(data).__name__}")
    if data.get("kind") not in KINDS:
        raise ConfigError(f"{path}: kind: wanted one of {list(KINDS)}, found {data.get('kind')!r}")
    return data


def load(path: str | Path, config_type: type[C], overrides: Sequence[str] = ()) -> C:
    """Load ``path`` into the dataclass ``config_type``, then apply ``key=value`` overrides (dotted keys go deeper).

    Raises ConfigError naming file, key, wanted and found for: unknown, missing or ill-typed keys, a float that
    PyYAML reads as a string (``2e-5``; write ``2.0e-5``), a malformed override.
    """
    path = find_config(path)
    data = read_yaml(path)
    if data.pop("kind") != "stage":
        raise ConfigError(f"{path}: kind: wanted 'stage' for {config_type.__module__}.{config_type.__qualname__}")
    data = _anchor_paths(data, config_type, path.resolve().parent)
    for override in overrides:
        _apply_override(data, config_type, override)
    return build(config_type, data, str(path))


def build(config_type: type[C], data: dict[str, Any], where: str) -> C:
    """``config_type`` made of plain data, checked like a file; ``where`` names it in messages. Raises ConfigError."""
    return typing.cast(C, _build(config_type, data, where))


def find_config(path: str | Path) -> Path:
    """``path`` if it exists, else the file of that name that ships in the package (``configs/...``)."""
    path = Path(path)
    shipped = Path(__file__).parent.joinpath(*path.parts[1:]) if path.parts[:1] == ("configs",) else path
    return path if path.exists() else shipped


def expand_runs(value: str) -> str:
    """Replace ``${runs}`` by ``$TILEWRIGHT_RUNS`` or ``./runs``, absolute."""
    runs = os.environ.get("TILEWRIGHT_RUNS") or "runs"
    return value.replace("${runs}", str(Path(runs).absolute()))


def _anchor_paths(data: Any, wanted: Any, base: Path) -> Any:
    """Make every value whose type is Path absolute, relative to ``base``."""
    if isinstance(data, dict) and dataclasses.is_dataclass(wanted):
        hints = typing.get_type_hints(wanted)
        return {key: _anchor_paths(value, hints.get(key), base) for key, value in data.items()}
    if isinstance(data, str) and _takes_path(wanted):
        return os.path.normpath(base / expand_runs(data))
    if isinstance(data, list) and get_args(wanted):
        return [_anchor_paths(value, get_args(wanted)[0], base) for value in data]
    if isinstance(data, dict) and get_origin(wanted) in (dict, Mapping) and len(get_args(wanted)) == 2:
        return {key: _anchor_paths(value, get_args(wanted)[1], base) for key, value in data.items()}
    if isinstance(data, (dict, list)) and _options(wanted):
        return _anchor_paths(data, _kinds(wanted).get(_kind(data), _options(wanted)[0]), base)
    return data


def _options(wanted: Any) -> list[Any]:
    """The alternatives of a Union, without None; empty when ``wanted`` is no Union."""
    if get_origin(wanted) in (Union, types.UnionType):
        return [option for option in get_args(wanted) if option is not type(None)]
    return []


def _kinds(wanted: Any) -> dict[Any, Any]:
    """{value of the key ``kind``: dataclass} of a Union of dataclasses that are told apart by a literal ``kind``."""
    named = [option for option in _options(wanted) if dataclasses.is_dataclass(option)]
    literals = [(get_args(typing.get_type_hints(option).get("kind")), option) for option in named]
    return {kind: option for kinds, option in literals for kind in kinds}


def _kind(value: Any) -> Any:
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


def _takes_path(wanted: Any) -> bool:
    return wanted is Path or Path in _options(wanted)


def _apply_override(data: dict[str, Any], config_type: type, override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"override {override!r}: wanted key=value")
    *parents, last = key.split(".")
    node, node_type = data, config_type
    for part in parents:
        node_type = _field_type(node_type, part)
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise ConfigError(f"override {override!r}: {part!r} holds {node!r}, not a mapping")
    try:
        value = yaml.load(text, Loader=_UniqueKeyLoader)  # a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"override {override!r}: {error}") from error
    wanted = _field_type(node_type, last)
    if wanted is str or (str in _options(wanted) and not isinstance(value, str) and value is not None):
        value = text
    node[last] = _anchor_paths(value, wanted, Path.cwd())


def _field_type(config_type: Any, name: str) -> Any:
    options = _options(config_type)
    config_type = options[0] if options else config_type
    if dataclasses.is_dataclass(config_type):
        return typing.get_type_hints(config_type).get(name)
    if get_origin(config_type) in (dict, Mapping):
        return get_args(config_type)[1]
    return None


def _build(wanted: Any, value: Any, where: str) -> Any:
    """Turn plain YAML data into ``wanted``, checking every key and type. ``where`` is file:key for messages."""
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        return _build_dataclass(wanted, value, where)
    origin = get_origin(wanted)
    if origin is Literal:
        if value not in get_args(wanted):
            hint = _nearest(str(value), [str(option) for option in get_args(wanted)])
            raise ConfigError(f"{where}: wanted one of {list(get_args(wanted))}, found {value!r}{hint}")
        return value
    if origin in (Union, types.UnionType):
        return _build_union(wanted, value, where)
    if origin is tuple:
        return _build_tuple(wanted, value, where)
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise _ill_typed(where, "a mapping", value)
        return {key: _build(get_args(wanted)[1], item, f"{where}.{key}") for key, item in value.items()}
    return _build_scalar(wanted, value, where)


def _build_dataclass(wanted: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _ill_typed(where, f"a mapping for {wanted.__name__}", value)
    separator = ":" if where.endswith((".yaml", ".yml")) else "."
    fields = {field.name: field for field in dataclasses.fields(wanted) if field.init}
    unknown = [key for key in value if key not in fields]
    if unknown:
        hint = _nearest(unknown[0], list(fields))
        raise ConfigError(f"{where}: unknown keys {unknown}{hint}; {wanted.__name__} has {list(fields)}")
    missing = [
        name
        for name, field in fields.items()
        if name not in value and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{where}: missing keys {missing} of {wanted.__name__}")
    hints = typing.get_type_hints(wanted)
    built = {name: _build(hints[name], item, f"{where}{separator}{name}") for name, item in value.items()}
    try:
        return wanted(**built)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error


def _build_union(wanted: Any, value: Any, where: str) -> Any:
    if value is None and type(None) in get_args(wanted):
        return None
    kinds = _kinds(wanted)
    if kinds and isinstance(value, dict):
        if _kind(value) not in kinds:
            hint = _nearest(str(value.get("kind")), list(kinds))
            raise ConfigError(f"{where}: kind: wanted one of {list(kinds)}, found {value.get('kind')!r}{hint}")
        return _build(kinds[_kind(value)], value, where)
    errors = []
    for option in _options(wanted):
        try:
            return _build(option, value, where)
        except ConfigError as error:
            errors.append(error)
    raise errors[0] if len(errors) == 1 else ConfigError("; or ".join(str(error) for error in errors))


def _build_tuple(wanted: Any, value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise _ill_typed(where, "a list", value)
    arguments = get_args(wanted)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        raise ConfigError(f"{where}: wanted {len(arguments)} values, found {len(value)}")
    return tuple(
        _build(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(arguments, value, strict=True))
    )


def _build_scalar(wanted: Any, value: Any, where: str) -> Any:
    if wanted is Any:
        return value
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise ConfigError(f"{where}: wanted a float, found a number of {value.bit_length()} bits") from error
    if wanted is Path and isinstance(value, str):
        return Path(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise _ill_typed(where, f"a finite {getattr(wanted, '__name__', wanted)}", value)
    if isinstance(wanted, type) and isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool)):
        return value
    raise _ill_typed(where, getattr(wanted, "__name__", str(wanted)), value)


def _ill_typed(where: str, wanted: str, value: Any) -> ConfigError:
    hint = ""
    if isinstance(value, str) and _EXPONENT_WITHOUT_POINT.match(value):
        mantissa, _, exponent = value.lower().partition("e")
        sign = "" if exponent[0] in "+-" else "+"
        point = "" if "." in mantissa else ".0"
        hint = f" (YAML 1.1 reads {value} as a string: write {mantissa}{point}e{sign}{exponent})"
    return ConfigError(f"{where}: wanted {wanted}, found {value!r} of type {type(value).__name__}{hint}")


def _nearest(name: str, options: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
