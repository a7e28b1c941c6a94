"""The manifests of a sharded stage's parts (``shard: i/n``), checked to be those of one request."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.configs.requests import differences
from tilewright.configs.stage import read_manifest


def manifests_of_parts(parts: Sequence[Path], stages: Collection[str]) -> list[dict[str, Any]]:
    """The manifests of ``parts``, finished folders of one of ``stages``.

    Raises InputError unless the requests are equal but for ``shard``, and the shards are 0/n to n-1/n.
    """
    if not parts:
        raise InputError("parts: wanted the folders of 0/n to n-1/n, found none")
    manifests = [_manifest(part, stages) for part in parts]
    first, *others = [_without_shard(manifest["request"]) for manifest in manifests]
    for part, other in zip(parts[1:], others, strict=True):
        for key, here, there in differences(first, other)[:1]:
            raise InputError(
                f"{part} isn't a part of the same request as {parts[0]}: {key} is {there} there, {here} here"
            )
    shards = [manifest["request"]["config"].get("shard") for manifest in manifests]
    wanted = [f"{number}/{len(parts)}" for number in range(len(parts))]
    if sorted(map(str, shards)) != sorted(wanted):
        raise InputError(f"parts: wanted each of the shards {wanted} once, found {shards}")
    return manifests


def _manifest(part: Path, stages: Collection[str]) -> dict[str, Any]:
    manifest = read_manifest(part)
    found = "no manifest.json" if manifest is None else manifest["request"]["stage"]
    if manifest is None or found not in stages:
        raise InputError(f"{part}: wanted the finished folder of {' or '.join(stages)} with shard=i/n, found {found}")
    return manifest


def _without_shard(request: Mapping[str, Any]) -> dict[str, Any]:
    return {**request, "config": {key: value for key, value in request["config"].items() if key != "shard"}}
