"""Imports point one way (eval -> mining -> train -> data_gen -> configs) and always carry the package's name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("configs", "data_gen", "train", "mining", "eval")  # each may import from those before it


def imported_names(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
            if node.level == 0 and node.module == "tilewright":
                yield from (f"tilewright.{alias.name}" for alias in node.names)


def violations(package: str, source: str) -> list[str]:
    allowed = LAYERS[: LAYERS.index(package) + 1]
    bad = []
    for name in imported_names(source):
        first, _, rest = name.partition(".")
        upward = first == "tilewright" and rest.partition(".")[0] in set(LAYERS) - set(allowed)
        if upward or first in LAYERS or name.startswith("."):
            bad.append(name)
    return bad


@pytest.mark.parametrize("package", LAYERS)
def test_no_import_points_up_or_lacks_the_prefix(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    assert {str(path): bad for path in files if (bad := violations(package, path.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "from tilewright.eval.metrics import x",
        "import tilewright.mining.index as index",
        "from tilewright import mining",
        "import train",
        "from data_gen.tiles import tile_boxes",
        "from . import losses",
        "def f():\n    if True:\n        from tilewright.eval import report",
    ],
)
def test_planted_violation_is_caught(planted: str) -> None:
    assert violations("train", planted)
    assert not violations("train", "import tilewright\nfrom tilewright.data_gen.tiles import tile_boxes\nimport torch")


@pytest.mark.parametrize("name", ["datasets", "types", "logging", "random", "tokenize"])
def test_no_file_shadows_a_module_when_run_by_path(name: str) -> None:
    assert not [path for package in LAYERS for path in (ROOT / package).rglob(f"{name}.py")]
