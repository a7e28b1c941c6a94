"""Results of several evaluations: the tables are those of the evaluation, findings are of one run, lineage is whole."""

import dataclasses
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.lineage import finished, lineage
from tilewright.configs.manifest import read_manifest
from tilewright.configs.stage import Stage, input_path, run_stage, write_atomically
from tilewright.data_gen.llm.ledger import Ledger
from tilewright.eval.make_results import STAGE, Config, Part
from tilewright.eval.report.markdown_tables import markdown_of
from tilewright.eval.report.markup import Markup, join, table, tag
from tilewright.eval.results_tables import tables_of
from tilewright.eval.wording import interval, percent

TABLES = ("retrieval_tile", "differences_tile", "readers", "failure_modes", "tokens")


def results(out: Path, *parts: Part) -> Config:
    return Config(
        out, "Trial <1>", "Said first.\n\nSaid | second.", {f"part_{n}": part for n, part in enumerate(parts)}
    )


def test_the_tables_are_those_of_the_evaluation(evaluation: Path, tmp_path: Path) -> None:
    identity = (read_manifest(evaluation) or {})["identity"]
    part = Part("Rows", "As it was.", TABLES, (evaluation,), "It holds.", (identity[:12],))
    run_stage(STAGE, results(tmp_path / "out", part))
    text, page = ((tmp_path / "out" / name).read_text() for name in ("RESULTS.md", "report.html"))
    figures = json.loads((evaluation / "metrics.json").read_text())["rows"]
    for name, row in figures.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {name}: ")]
        for figure in row.get("tile", {}).values():
            assert f"| {percent(figure['value'])} {interval(figure)}" in line
    assert "It holds." in text and "another run" not in text
    assert f"evaluate {identity[:12]}" in text and "Trial &lt;1&gt;" in page
    assert "report of evaluation" in page or "report of " in page
    assert text.count("\n\n\n") == 0


def test_findings_of_another_run_are_said_to_be(evaluation: Path, tmp_path: Path) -> None:
    part = Part("Rows", "As it was.", ("retrieval_tile",), (evaluation,), "It holds.", ("0" * 12,))
    run_stage(STAGE, results(tmp_path / "out", part))
    for name in ("RESULTS.md", "report.html"):
        assert "were written from another run (000000000000)" in (tmp_path / "out" / name).read_text()


def test_every_stage_behind_stands_once_and_after_its_inputs(evaluation: Path) -> None:
    stages = lineage([evaluation, evaluation])
    folders = [stage.folder for stage in stages]
    assert folders[-1] == evaluation.resolve() and len(set(folders)) == len(folders)
    for place, stage in enumerate(stages):
        behind = {folder for folder in folders for path in stage.inputs if path.is_relative_to(folder)}
        assert behind - {stage.folder} <= set(folders[:place])


@dataclass(frozen=True)
class Copied:
    out: Path
    suffix: str
    text: Path = input_path()
    texts: tuple[Path, ...] = input_path(default=())


def copy(config: Copied, inputs: Any, out: Path) -> dict[str, Any]:
    (out / "texts").mkdir()
    (out / "texts" / "text.txt").write_text(inputs["text"].read_text() + config.suffix)
    write_atomically(out / "metrics.json", '{"not": "of an evaluation"}')
    return {"copied": 1}


COPY = Stage("copy", Copied, copy)


def test_inputs_that_were_made_anew_or_are_gone_are_said(tmp_path: Path) -> None:
    source, first, last = tmp_path / "source.txt", tmp_path / "first", tmp_path / "last"
    source.write_text("x")
    run_stage(COPY, Copied(first, "1", source))
    file = first / "texts" / "text.txt"
    run_stage(COPY, Copied(last, "2", file, (first, first / "texts", file)))
    assert [(stage.folder, stage.replaced) for stage in lineage([last])] == [(first, ()), (last, ())]
    shutil.rmtree(first)
    assert [stage.replaced for stage in lineage([last])] == [("text", "texts")]
    run_stage(COPY, Copied(first, "another", source))
    source.unlink()
    part = Part("Copies", "", ("counts",), (last,))
    manifest = run_stage(STAGE, results(tmp_path / "out", part))
    assert manifest["counts"] == {"parts": 1, "stages": 2, "inputs_replaced": 3}
    for name in ("RESULTS.md", "report.html"):
        said = f"made anew since: of {tmp_path.name}/first (text); {tmp_path.name}/last (text, texts)."
        assert said in (tmp_path / "out" / name).read_text().replace("\\", "")


def test_calls_are_of_every_account_of_a_stage(tmp_path: Path) -> None:
    (tmp_path / "source.txt").write_text("x")
    run_stage(COPY, Copied(tmp_path / "copied", "", tmp_path / "source.txt"))
    for name, purpose in (("ledger", "judge citations"), ("labels.full.ledger", "labels")):
        ledger = Ledger(tmp_path / name)
        ledger.cached(purpose)
        ledger.close()
        text = (tmp_path / name / "logs" / "ledger.json").read_text()
        (tmp_path / "copied" / "logs").mkdir(exist_ok=True)
        (tmp_path / "copied" / "logs" / f"{name}.json").write_text(text)
    run_stage(STAGE, results(tmp_path / "out", Part("Calls", "", ("calls",), (tmp_path / "copied",))))
    lines = [
        line.split(" | ")[1] for line in (tmp_path / "out" / "RESULTS.md").read_text().splitlines() if " 1 | " in line
    ]
    assert lines == ["labels (labels full)", "judge citations"]


def test_another_stage_s_metrics_are_no_tables_of_an_evaluation(tmp_path: Path) -> None:
    (tmp_path / "source.txt").write_text("x")
    run_stage(COPY, Copied(tmp_path / "copied", "", tmp_path / "source.txt"))
    part = Part("Copies", "", ("counts",), (tmp_path / "copied",))
    run_stage(STAGE, results(tmp_path / "out", part))
    assert "| copy | copied | copied | 1 |" in (tmp_path / "out" / "RESULTS.md").read_text()
    with pytest.raises(InputError, match=r"table 'retrieval_tile' is unknown; there are \['calls', 'counts'\]"):
        run_stage(STAGE, results(tmp_path / "no", dataclasses.replace(part, tables=("retrieval_tile",))))


def test_what_cannot_be_shown_is_an_error(evaluation: Path, tmp_path: Path) -> None:
    part = Part("Rows", "", ("retrieval_tiles",), (evaluation,))
    with pytest.raises(InputError, match=r"table 'retrieval_tiles' is unknown; there are .*retrieval_tile'"):
        run_stage(STAGE, results(tmp_path / "a", part))
    with pytest.raises(InputError, match="table 'arms_tile' is without rows"):
        run_stage(STAGE, results(tmp_path / "b", dataclasses.replace(part, tables=("arms_tile",))))
    with pytest.raises(InputError, match="table 'retrieval_evidence_recall_judged' is without rows"):
        tables_of(("retrieval_evidence_recall_judged",), [finished(evaluation)])
    copied = tmp_path / "of_pages"
    shutil.copytree(evaluation, copied)
    metrics = json.loads((copied / "metrics.json").read_text())
    metrics["rows"] = {name: {key: row[key] for key in row if key != "tile"} for name, row in metrics["rows"].items()}
    (copied / "metrics.json").write_text(json.dumps(metrics))
    assert tables_of(("retrieval_page",), [finished(copied)])
    with pytest.raises(InputError, match="table 'retrieval_tile' is without rows"):
        tables_of(("retrieval_tile",), [finished(copied)])
    (tmp_path / "no_stage").mkdir()
    with pytest.raises(InputError, match="no_stage"):
        run_stage(STAGE, results(tmp_path / "c", dataclasses.replace(part, folders=(tmp_path / "no_stage",))))
    for wrong in ({"folders": ()}, {"tables": ()}, {"findings": "x"}, {"findings_of": ("x",)}):
        with pytest.raises(ValueError, match="wanted"):
            dataclasses.replace(part, **wrong)


def test_counts_of_stages(evaluation: Path, tmp_path: Path) -> None:
    part = Part("Counts", "", ("counts",), (evaluation,))
    run_stage(STAGE, results(tmp_path / "out", part))
    assert "| n_questions" not in (text := (tmp_path / "out" / "RESULTS.md").read_text())
    assert "| evaluate | " in text and "| questions | 8 |" in text


def test_markdown_of_a_table_keeps_every_cell() -> None:
    rows: list[list[Any]] = [
        [join([tag("b", "a|b"), tag("small", "x < y")], " "), 1, ""],
        ["c\\d\ne", "2 %", Markup("&amp;")],
    ]
    text = markdown_of(table(["Row", "n", ""], rows, "Said <b>"))
    assert text == (
        "*Said &lt;b>*\n\n| Row | n |  |\n| --- | ---: | ---: |\n| a\\|b: x &lt; y | 1 |  |\n| c\\\\d e | 2 % | & |\n"
    )
    assert markdown_of(tag("p", "no table")) == ""
