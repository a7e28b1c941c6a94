"""SPIRE rows through the evaluation: retriever, delivery within the budget, measures, an encoder of the run."""

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import EvalRecord, read_jsonl
from tilewright.eval.evaluate import STAGE
from tilewright.eval.evidence.spire.rows import SpireSeeds, SpireViews
from tilewright.eval.evidence.spire.spire import SpireOptions
from tilewright.eval.readers.string_evidence import StringEvidence
from tilewright.eval.rows import RowSpec

CELLS = {
    "embedding": "seeds.views.string.k1",
    "noctx": "bare.noctx.string.k1",
    "full": "seeds.full.string.k1",
    "tight": "seeds.tight.string.k1",
    "tiles": "bm25.views.string.k1",
}


@pytest.fixture(scope="module")
def spire_run(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("spire") / "evaluation"
    changes: dict[str, Any] = {
        "pages": world.root / "pages",
        "retrievers": {
            "seeds": SpireSeeds("spire_seeds"),
            "bare": SpireSeeds("spire_seeds", context=False, segmenter="rule"),
            "dense": SpireSeeds("spire_seeds", search="trained"),
        },
        "deliveries": {
            "views": SpireViews("spire"),
            "noctx": SpireViews("spire", SpireOptions(mode="noctx")),
            "full": SpireViews("spire", SpireOptions(mode="full")),
            "tight": SpireViews("spire", SpireOptions(tokens=12)),
        },
        "readers": {"string": StringEvidence("string_evidence")},
        "rows": (
            "dense",
            RowSpec("seeds", ("as_is", "views", "full", "tight"), "string", (1,)),
            RowSpec("bare", "noctx", "string", (1,)),
            RowSpec("bm25", "views", "string", (1,)),
        ),
        "compare": (),
        "read_questions": None,
        "max_error_share": 1.0,
    }
    run_stage(STAGE, world.config(out, **changes))
    return out


def cell_of(folder: Path, name: str) -> dict[str, Any]:
    cells = json.loads((folder / "metrics.json").read_text())["readers"]
    return next(cell for cell in cells if cell["name"] == name)


def test_sentences_are_found_and_delivered_as_views(spire_run: Path) -> None:
    rows = json.loads((spire_run / "metrics.json").read_text())["rows"]
    assert rows["seeds"]["page"]["recall@1"]["value"] == 1.0 and rows["dense"]["n_errors"] == 0
    cell = cell_of(spire_run, CELLS["embedding"])
    measures = cell["delivery_measures"]
    assert measures["given_gold_page"]["value"] == 1.0
    assert measures["given_evidence_recall_string"]["value"] == 5 / 8  # the pages say four years and one of four names
    assert measures["citations"]["value"] > measures["helpful_string"]["value"] > 0
    assert 0 < measures["scaffold_share"]["value"] < 1 and measures["documents"]["value"] >= 1
    assert cell_of(spire_run, CELLS["noctx"])["delivery_measures"]["scaffold_share"]["value"] == 0
    assert cell_of(spire_run, CELLS["full"])["delivery_measures"]["citations"]["value"] < measures["citations"]["value"]


@pytest.mark.parametrize(("cell", "budget"), [("embedding", 1000), ("noctx", 1000), ("full", 1000), ("tight", 12)])
def test_views_cost_the_reader_no_more_than_the_budget(spire_run: Path, cell: str, budget: int) -> None:
    records = read_jsonl(spire_run / "records" / f"{CELLS[cell]}.jsonl", EvalRecord)
    assert len(records) == 8
    for record in records:
        assert sum(given.tokens for given in record.given) <= budget
        assert len({given.page_id for given in record.given}) == len(record.given)  # one merged view a page


def test_items_that_are_no_sentences_are_errors_not_silence(spire_run: Path) -> None:
    cell = cell_of(spire_run, CELLS["tiles"])
    assert cell["n_errors"] == 8 and cell["errors"]["delivery failed"] == 8


def test_a_filter_without_its_mode_is_refused(world: Any, tmp_path: Path) -> None:
    from tilewright.data_gen.llm import LlmSettings
    from tilewright.eval.evidence.spire.rows import SpireDelivery

    llm = LlmSettings("m", 0.0, 10, base_url="http://127.0.0.1:1/v1")
    with pytest.raises(InputError, match="mode full"):
        SpireDelivery(SpireViews("spire", labels=llm), None)  # type: ignore[arg-type]
