"""The README's commands for language models, as they stand, against the scripted server."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli import STAGES, main
from tilewright.configs.recipe import load_recipe
from tilewright.data_gen.records import QAPair, TextPair, read_jsonl

README = Path(__file__).parents[3] / "README.md"
CONFIGS = Path(__file__).parents[3] / "configs"
URL = "http://localhost:8000/v1"


def commands() -> list[str]:
    block = re.search(r"test_readme_models.py -->\n```bash\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return [line.split(" #")[0].strip() for line in block[1].splitlines() if line.strip()]


def test_each_command_in_turn(
    serve: Callable[..., Any], tiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The default corpus is replaced by a small one of the same layout; pages and tiles are finished already."""
    monkeypatch.delenv("TILEWRIGHT_RUNS", raising=False)
    monkeypatch.chdir(tmp_path)
    url = serve("--rules", Path(__file__).with_name("stage_rules.py")).url
    (tmp_path / "runs/full").mkdir(parents=True)
    shutil.copytree(tiles, tmp_path / "runs/full/tiles")
    printed = []
    for command in commands():
        arguments = [argument.replace(URL, url) for argument in shlex.split(command)[1:]]
        if arguments[0] == "run":
            arguments[1] = str(_without_corpus(tmp_path))
        elif arguments[0] == "precision":
            _write_marks(tmp_path / arguments[1])
        main([*arguments, *(["passages.min_words=5"] if arguments[0] == "text_pairs" else ())])
        printed.append("".join(capsys.readouterr()))
        assert printed[-1].strip(), command
    assert "calls 40" in printed[0]
    whole, merged = (tmp_path / "runs/openai" / name / "pairs.jsonl" for name in ("queries", "queries_merged"))
    assert whole.read_bytes() == merged.read_bytes() and len(read_jsonl(whole, QAPair)) > 20
    assert (tmp_path / "runs/openai/splits/train.jsonl").is_file()
    assert read_jsonl(tmp_path / "runs/openai/text_pairs/text_pairs.jsonl", TextPair)


def _without_corpus(folder: Path) -> Path:
    """configs/openai.yaml without the stages that make the corpus."""
    steps = load_recipe(CONFIGS / "openai.yaml", list(STAGES))
    wanted = [step.config for step in steps if step.stage not in ("make_pages", "render_tiles")]
    assert len(wanted) == len(steps) - 2
    path = folder / "recipe.yaml"
    path.write_text("kind: recipe\nstages:\n" + "".join(f"  - {config}\n" for config in wanted))
    return path


def _write_marks(path: Path) -> None:
    mark = {"query_id": "q", "mark": "good", "note": "", "outcome": "kept", "page_id": "0" * 16, "sample": "s"}
    path.write_text(json.dumps(mark) + "\n")
