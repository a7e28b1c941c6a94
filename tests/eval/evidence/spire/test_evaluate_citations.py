"""The stage from end to end: on a corpus with tiles, on HtmlRAG's files with a judge over HTTP, killed and gone on."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.stage import StageError, dry_run, run_stage
from tilewright.data_gen.llm import LlmSettings
from tilewright.eval.evaluate_citations import STAGE, Config
from tilewright.eval.evidence.spire.citing import Citing
from tilewright.eval.evidence.spire.document import build_document
from tilewright.eval.evidence.spire.helpful_judge import parse_helpful
from tilewright.eval.evidence.spire.measures import ratio_difference
from tilewright.eval.evidence.spire.segmenters import Segmenter
from tilewright.eval.evidence.spire.systems import SystemOptions

RULES = """
def verdict(prompt):
    if "Mumble" in prompt.text:
        return "perhaps"
    return "HELPFUL" if "Ada wrote it" in prompt.text.split("[BEGIN passage")[1] else "UNHELPFUL"
RULES = [("A question has a known answer", verdict), ("A page is given", lambda prompt: "lab_1")]
"""
MODES = ("blocks", "embedding", "noctx", "full")
HOSTILE = "<script>alert(1)</script>"


def config(out: Path, **changes: Any) -> Config:
    settings: dict[str, Any] = {
        "systems": {mode: SystemOptions(mode) for mode in MODES},  # type: ignore[arg-type]
        "compare": (("embedding", "blocks"), ("noctx", "embedding")),
        "count": None,
        "resamples": 200,
        "confidence": 0.95,
        "seed": 0,
    }
    return Config(out=out, **(settings | changes))


@pytest.fixture(scope="module")
def corpus_run(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("citations") / "run"
    paths = {"pages": world.root / "pages", "pairs": world.paths["pairs"], "tiles": world.paths["tiles"]}
    run_stage(STAGE, config(out, **paths))
    return out


def lines(path: Path) -> list[Citing]:
    return [Citing.from_plain(json.loads(line)) for line in path.read_text().splitlines()]


def test_systems_are_measured_side_by_side(corpus_run: Path) -> None:
    metrics = json.loads((corpus_run / "metrics.json").read_text())
    assert set(metrics["systems"]) == set(MODES)
    for name, entry in metrics["systems"].items():
        cited = lines(corpus_run / "citations" / f"{name}.jsonl")
        assert entry["n_questions"] == 8 == len(cited)
        assert entry["citations_total"] == sum(len(one.outcome.cited) for one in cited)
        assert entry["citations"]["mean"] == pytest.approx(entry["citations_total"] / 8)
        assert entry["helpful_string"]["ratio"] == pytest.approx(
            entry["helpful_string"]["total"] / entry["citations_total"]
        )
        assert all(one.outcome.tokens <= 1000 for one in cited)
    assert metrics["systems"]["noctx"]["scaffold_share"]["mean"] == 0
    assert metrics["differences"][0]["citations"]["value"] > 0
    assert (corpus_run / "table.md").read_text().count("\n") == 6


def test_citations_resolve_in_the_stored_pages(corpus_run: Path, world: Any) -> None:
    for citing in lines(corpus_run / "citations" / "embedding.jsonl"):
        for citation in citing.citations:
            html = (world.root / "pages" / "documents" / f"{citation.page_id}.html").read_text()
            document = build_document(html, Segmenter("nupunkt"))
            assert document.document_id == citation.document_id
            assert document.seeds[citation.seed].paths == set(citation.paths)
            assert citation.url.startswith("https://example.org/wiki/") and "#:~:text=" in citation.url


def test_the_page_of_citations_holds_no_markup_of_the_data(corpus_run: Path) -> None:
    page = (corpus_run / "citations.html").read_text()
    assert "<script" not in page and "onerror=alert(1)>" not in page and "&lt;script&gt;" in page


@pytest.fixture
def html_set(tmp_path: Path) -> Path:
    return html_rows(tmp_path, ["Who wrote it?"] * 3)


def html_rows(folder: Path, questions: list[str]) -> Path:
    html = "<p>Ada wrote it. Nobody read it.</p><p>{}.</p>"
    rows = [
        {"id": str(n), "question": question, "answer": "Ada", "slimplmqr_results": [{"html": html.format(n)}]}
        for n, question in enumerate(questions)
    ]
    path = folder / "binghtml-slimplmqr-hotpot-qa-test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_htmlrag_questions_over_pages_of_their_own_with_models(html_set: Path, server: str, tmp_path: Path) -> None:
    llm = LlmSettings("m", 0.0, 64, base_url=server, max_retries=0)
    systems = {"embedding": SystemOptions("embedding"), "full": SystemOptions("full", labels=llm)}
    out = tmp_path / "out"
    run_stage(STAGE, config(out, systems=systems, compare=(), html_sets=(html_set,), judge=llm))
    entries = json.loads((out / "metrics.json").read_text())["systems"]
    assert entries["embedding"]["helpful_judged"]["total"] == 3 == entries["embedding"]["helpful_string"]["total"]
    assert entries["full"]["citations_total"] == 3 and entries["full"]["helpful_judged"]["ratio"] == 1.0
    for citing in lines(out / "citations" / "full.jsonl"):
        assert {citation.page_id.partition("-")[0] for citation in citing.citations} == {citing.outcome.query_id}


def test_citations_without_a_verdict_are_counted_and_none_at_all_is_an_error(server: str, tmp_path: Path) -> None:
    llm = LlmSettings("m", 0.0, 64, base_url=server, max_retries=0)
    settings: dict[str, Any] = {"systems": {"embedding": SystemOptions("embedding")}, "compare": (), "judge": llm}
    path = html_rows(tmp_path, ["Who wrote it?", "Mumble: who wrote it?"])
    manifest = run_stage(STAGE, config(tmp_path / "some", html_sets=(path,), **settings))
    assert (manifest["counts"]["citations_embedding"], manifest["counts"]["unjudged_embedding"]) == (4, 2)
    assert "| 1/2 0.500, 2 unjudged |" in (tmp_path / "some" / "table.md").read_text()
    path = html_rows(tmp_path, ["Mumble: who wrote it?"] * 2)
    with pytest.raises(StageError, match="no verdict on any of 2 citations"):
        run_stage(STAGE, config(tmp_path / "none", html_sets=(path,), **settings))
    assert not (tmp_path / "none").exists()


def test_equal_citations_of_two_systems_have_one_verdict_also_if_its_call_fails(scripted: Any, tmp_path: Path) -> None:
    path = html_rows(tmp_path, [f"Who wrote it in {year}?" for year in range(1900, 1910)])
    faulty = scripted(RULES, "--fault-rate", "0.5", "--faults", "http_500", "--most-faults", "99")
    systems = {name: SystemOptions("noctx") for name in ("one", "two", "three")}
    judge = faulty.model(concurrency=1)
    run_stage(STAGE, config(tmp_path / "out", systems=systems, compare=(), html_sets=(path,), judge=judge))
    found = [lines(tmp_path / "out" / "citations" / f"{name}.jsonl") for name in systems]
    assert found[0] == found[1] == found[2] and {None} < {v for one in found[0] for v in one.outcome.judged}


def test_a_dry_run_counts_the_calls_that_a_run_then_makes(html_set: Path, server: str, tmp_path: Path) -> None:
    """The scripted server chooses what shared words choose, so that here the estimate is the run's number."""
    llm = LlmSettings("m", 0.0, 64, base_url=server, max_retries=0)
    systems = {"embedding": SystemOptions("embedding"), "full": SystemOptions("full", labels=llm)}
    asking = config(tmp_path / "out", systems=systems, compare=(), html_sets=(html_set,), judge=llm)
    said = dry_run(STAGE, asking)
    assert "labels of full: dry run of m: no call was made" in said and not asking.out.exists()
    with pytest.raises(StageError, match="labels of full: dry run of m: no call was made"):
        run_stage(STAGE, dataclasses.replace(asking, dry_run=True))
    assert not list(tmp_path.glob("out*"))
    calls = dict(re.findall(r"^  ([a-z ]+): calls (\d+),", said, re.MULTILINE))
    run_stage(STAGE, asking)
    made = {}
    for name, ledger in (("labels", "labels.full.ledger"), ("judge citations", "ledger")):
        sums = json.loads((asking.out / "logs" / f"{ledger}.json").read_text())
        made[name] = sums["by_purpose"][name]["finished"]
    assert made == {name: int(count) for name, count in calls.items()}
    with pytest.raises(InputError, match="nothing that asks a model"):
        dry_run(STAGE, config(tmp_path / "out", html_sets=(html_set,)))


def test_what_was_cited_before_a_stop_is_not_cited_again(html_set: Path, tmp_path: Path) -> None:
    """The journal of a first system is taken over; the files are those of a run in one go."""
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    run_stage(STAGE, config(whole, html_sets=(html_set,)))
    broken = config(halves, html_sets=(html_set,))
    calls = 0

    def stop(settings: Config, inputs: Any, out: Path) -> Any:
        nonlocal calls
        calls += 1
        found = STAGE.run(settings, inputs, out)
        (out / "metrics.json").unlink()
        if calls == 1:
            raise KeyboardInterrupt
        return found

    with pytest.raises(KeyboardInterrupt):
        run_stage(dataclasses.replace(STAGE, run=stop), broken)
    run_stage(STAGE, broken)
    for path in whole.rglob("*"):
        if path.is_file() and path.name != "manifest.json" and "logs" not in path.parts:
            assert path.read_bytes() == (halves / path.relative_to(whole)).read_bytes()


def test_verdicts_are_read_strictly() -> None:
    replies = {"HELPFUL": True, "unhelpful": None, "UNHELPFUL.": False, "It is HELPFUL": None, "NOT HELPFUL": None}
    assert {reply: parse_helpful(reply) for reply in replies} == replies


def test_difference_of_ratios_in_closed_form() -> None:
    left, right = [("a", 1, 2), ("b", 1, 2)], [("a", 1, 4), ("b", 1, 4)]
    found = ratio_difference(left, right, resamples=50, seed=0, confidence=0.9)
    assert found == {"value": 0.25, "low": 0.25, "high": 0.25}
    one = ratio_difference(left[:1], [*right[:1], ("b", 0, 0)], resamples=50, seed=0, confidence=0.9)
    assert one == {"value": 0.25, "low": None, "high": None}, "of one cluster there is nothing to resample"
    assert ratio_difference([("a", 0, 0)], right, resamples=5, seed=0, confidence=0.9)["value"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"pairs": Path("x")}, "pages"), ({"html_sets": (Path("x"),), "pages": Path("y")}, "pages"),
     ({"html_sets": (Path("x"),), "systems": {}}, "systems"),
     ({"html_sets": (Path("x"),), "systems": {"../../x": SystemOptions("noctx")}, "compare": ()}, "lower case"),
     ({"html_sets": (Path("x"),), "compare": (("a", "b"),)}, "compare")],
)  # fmt: skip
def test_configs_that_make_no_sense_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        config(tmp_path, **changes)
