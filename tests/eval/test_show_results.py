"""What is printed to the terminal, and how figures are worded."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tilewright.configs.errors import InputError
from tilewright.eval.bootstrap import Estimate
from tilewright.eval.metrics import as_json
from tilewright.eval.show_results import print_results, read_metrics, show
from tilewright.eval.wording import (
    difference_interval,
    interval,
    learning_sentence,
    not_above_chance,
    p_value,
    pool_sentence,
)


def figures(value: float, low: float | None, high: float | None, chance: float) -> dict[str, Any]:
    return as_json(Estimate(value, low, high, "", 40, 9)) | {"chance": chance}


def on_pages_of(train: int, validation: int) -> dict[str, int]:
    return {"on_train_pages": train, "on_validation_pages": validation}


def metrics(**changes: Any) -> dict[str, Any]:
    """Metrics of two rows that ran, one that didn't and a reader with errors."""
    level = {"recall@1": figures(0.05, 0.0, 0.1, 0.01), "mrr": figures(0.5, 0.4, 0.6, 0.1)}
    ran = {"status": "complete", "n_errors": 0, "tiles_failed": 0, "facts": {}, "page": level, "tile": level}
    reader: dict[str, Any] = {"name": "gold.c4.base.k1", "status": "incomplete", "n_errors": 2, "n_graded": 5}
    reader |= {"n_questions": 7, "accuracy": {"alias": figures(0.25, 0.1, 0.4, 0)}, "tokens": {"input": 246.0}}
    missing = {"name": "ocr.as_is.base.k1", "status": "not run", "reason": "tesseract is not installed"}
    return {
        "stand_ins": ["Annotator [grounded/1]"],
        "settings": {"ks": [1], "depth": 50, "confidence": 0.95},
        "pool": {"n_tiles": 30, "n_pages": 10, "corpus_tiles": 90, "corpus_pages": 10, "pages_incomplete": 8},
        "questions": {"n_questions": 40, "n_pages": 9, "gold_outside_pool": 0} | on_pages_of(0, 0),
        "chance": {kind: {"recall@1": 0.01, "mrr": 0.1} for kind in ("page", "tile")},
        "rows": {
            "base": ran | {"title": "pictures"},
            "ocr": {"title": "OCR", "status": "not run", "reason": "tesseract is not installed"},
        },
        "differences": [{"row": "base", "against": "x", "page": level, "tile": level}],
        "graders": {"columns": ["exact", "alias"], "deciding": "alias"},
        "readers": [reader, missing],
        "learning_check": {"recall@1": 0.5, "n_examples": 64, "n_tiles": 200, "chance": 0.01, "wanted": 0.9},
    } | changes


def printed(data: dict[str, Any], width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_results(data, Path("/runs/evaluation/report.html"), console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_everything_that_must_be_said_is_said() -> None:
    text = " ".join(printed(metrics()).split())
    for wanted in (
        "STAND-IN Annotator [grounded/1]",
        "These tiles are a sample: the corpus has 90 tiles on 10 pages; 2 pages are here whole",
        "not run: tesseract is not installed",
        "5.0 ≈",
        "[0.0, 10.0]",
        "[40.0, 60.0]",
        "MRR@50",
        "chance",
        "gold.c4.base.k1",
        "5 of 7",
        "INCOMPLETE, 2 errors",
        "246",
        "ocr.as_is.base.k1",
        "0.500 (wanted at least 0.9; NOT reached)",
        "/runs/evaluation/report.html",
    ):
        assert wanted in text, wanted


def test_four_columns_fit_eighty_characters() -> None:
    wide = figures(1.0, -1.0, 1.0, 0.5)
    level = dict.fromkeys(("recall@1", "recall@3", "recall@10", "mrr"), wide)
    row = {"title": "pictures", "status": "complete", "n_errors": 0, "tiles_failed": 0, "page": level, "tile": level}
    data = metrics(
        rows={"trained": row}, differences=[{"row": "trained", "against": "base", "page": level, "tile": level}]
    )
    data["settings"]["ks"] = [1, 3, 10]
    data["chance"] = {kind: dict.fromkeys(level, 0.5) for kind in ("page", "tile")}
    assert printed(data).count("[-100.0, +100.0]") == 8


def test_wording() -> None:
    assert interval(figures(0.5, None, None, 0)) == "–"
    assert difference_interval(figures(0.0, None, None, 0)) == "no question differs"
    assert difference_interval(figures(0.1, 0.05, 0.15, 0)) == "[+5.0, +15.0]"
    assert not_above_chance(figures(0.1, 0.01, 0.2, 0.01)) and not not_above_chance(figures(0.1, 0.02, 0.2, 0.01))
    assert not not_above_chance(figures(0.1, None, None, 0.01))
    assert [p_value(p) for p in (None, 1.0, 0.0305, 0.0005, 0.00049, 0.0)] == [
        "–", "p = 1.000", "p = 0.030", "p = 0.001", "p < 0.001", "p < 0.001"
    ]  # fmt: skip
    assert learning_sentence(metrics(learning_check=None)) is None
    whole = metrics(pool={"n_tiles": 1, "n_pages": 1, "corpus_tiles": 1, "corpus_pages": 1, "pages_incomplete": 0})
    assert pool_sentence(whole) == "40 test questions on 9 pages, each searched among all 1 tile of 1 page."
    sentence = pool_sentence(metrics(questions=metrics()["questions"] | on_pages_of(2, 3)))
    assert "2 questions are about pages of the train split: NOT held out." in sentence
    assert "3 questions are about pages of the validation split: NOT held out." in sentence
    cut = metrics(pool={"n_tiles": 9, "n_pages": 2, "corpus_tiles": 9, "corpus_pages": 2, "pages_incomplete": 1})
    assert "Not captured to the end: 1 page." in pool_sentence(cut)


def test_reads_what_evaluate_wrote_or_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="run the stage evaluate first"):
        read_metrics(tmp_path)
    (tmp_path / "metrics.json").write_text("{")
    with pytest.raises(InputError, match="not the result of an evaluation"):
        read_metrics(tmp_path)
    (tmp_path / "metrics.json").write_text("[]")
    with pytest.raises(InputError, match="found no 'rows'"):
        read_metrics(tmp_path)
    (tmp_path / "metrics.json").write_text(json.dumps(metrics()))
    show(tmp_path)
    assert "Learning check" in capsys.readouterr().out
