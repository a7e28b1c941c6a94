"""The stage from end to end on a small world: files, figures against ir-measures, resume, the report in Chromium."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ir_measures
import pytest
import yaml

from tilewright.configs.errors import InputError
from tilewright.configs.load import ConfigError, load
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import EvalRecord, QAPair, read_jsonl, write_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval import ocr
from tilewright.eval.checkpoints import Checkpoint
from tilewright.eval.evaluate import STAGE, Config
from tilewright.eval.retrievers.simple import Hybrid
from tilewright.eval.rows import RowSpec
from tilewright.eval.tools import MissingToolError
from tilewright.eval.trec import read_run
from tilewright.mining.embed_tiles import STAGE as EMBED
from tilewright.mining.embed_tiles import Config as EmbedConfig
from tilewright.train.encoder import load_encoder

ROWS = ("base", "trained", "bm25", "ocr")
SEARCHED = (*ROWS, "gold")


def metrics_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text())


def test_files_and_counts(world: Any, evaluation: Path) -> None:
    cells = [
        f"{retriever}.{delivery}.{reader}.k1"
        for retriever in ("trained", "gold")
        for delivery in ("as_is", "c4")
        for reader in ("base", "trained")
    ]
    names = [*(f"runs/{row}.trec" for row in SEARCHED), *(f"records/{row}.jsonl" for row in (*SEARCHED, *cells))]
    names += ["metrics.json", "report.html", "qrels_tiles.trec", "qrels_pages.trec", "manifest.json"]
    names += ["table.md", "table.tex"]
    found = {path.relative_to(evaluation).as_posix() for path in evaluation.rglob("*") if path.is_file()}
    assert {name for name in found if not name.startswith("logs/")} == set(names)
    counts = json.loads((evaluation / "manifest.json").read_text())["counts"]
    assert (counts["questions"], counts["tiles"], counts["errors"], counts["incomplete"]) == (8, 12, 0, 0)
    texts = [path.read_text() for path in evaluation.rglob("*") if path.suffix in (".json", ".jsonl", ".html", ".trec")]
    outputs = [text for text in texts if '"provenance": {' not in text]
    assert not any(str(world.root) in text or str(Path.home()) + "/" in text for text in outputs)


@pytest.mark.parametrize(("level", "qrels"), [("page", "qrels_pages.trec"), ("tile", "qrels_tiles.trec")])
@pytest.mark.parametrize("row", ROWS)
def test_recall_equals_ir_measures(evaluation: Path, row: str, level: str, qrels: str) -> None:
    names = {"recall@1": "Success@1", "recall@3": "Success@3", "recall@10": "Success@10", "mrr": "RR"}
    theirs = ir_measures.calc_aggregate(
        [ir_measures.parse_measure(name) for name in names.values()],
        list(ir_measures.read_trec_qrels(str(evaluation / qrels))),
        list(ir_measures.read_trec_run(str(evaluation / "runs" / f"{row}.trec"))),
    )
    figures = metrics_of(evaluation)["rows"][row][level]
    for ours, their in names.items():
        assert figures[ours]["value"] == pytest.approx(theirs[ir_measures.parse_measure(their)], abs=1e-9), ours


def test_embedder_rows_are_exact_search(world: Any, evaluation: Path) -> None:
    """Second way: vectors by the embedding stage, scores by one matrix product."""
    encoder, store = load_encoder(world.paths["checkpoints"]["trained"].folder), TileStore.open(world.paths["tiles"])
    tiles = encoder.encode_tiles([store.image(tile_id) for tile_id in store.tile_ids])
    pairs = read_jsonl(world.paths["pairs"], QAPair)
    scores = encoder.encode_queries([pair.query for pair in pairs]) @ tiles.T
    run = {ranking.query_id: ranking.hits for ranking in read_run(evaluation / "runs" / "trained.trec")}
    for pair, row in zip(pairs, scores, strict=True):
        best = dict(run[pair.query_id])
        assert len(best) == 12
        for tile_id, score in zip(store.tile_ids, row.tolist(), strict=True):
            assert best[tile_id] == pytest.approx(score, abs=2e-5)


def test_text_rows_find_the_named_place(evaluation: Path) -> None:
    figures = metrics_of(evaluation)["rows"]
    assert figures["bm25"]["page"]["recall@1"]["value"] == 1.0
    assert figures["ocr"]["page"]["recall@3"]["value"] >= 0.75
    assert figures["ocr"]["tiles_failed"] == 0


def test_records_hold_all_that_happened(world: Any, evaluation: Path) -> None:
    records = read_jsonl(evaluation / "records" / "trained.c4.trained.k1.jsonl", EvalRecord)
    searched = {record.query_id: record for record in read_jsonl(evaluation / "records" / "trained.jsonl", EvalRecord)}
    assert len(records) == 4 and len(searched) == 8
    for record in records:
        (given,) = record.given
        assert given.item_id == searched[record.query_id].hits[0][0] and record.hits == searched[record.query_id].hits
        assert (given.compression, given.size_px, given.tokens) == (4.0, (160, 128), 20)
        assert record.visual_tokens == 5 * 4 and record.k == 1 and record.retrieved_text_tokens == 0
        assert set(record.scores) == {"exact", "alias", "token_f1"}
        assert record.input_tokens > record.visual_tokens and 0 < record.output_tokens <= 4
        assert record.error is None and record.verdict in ("WRONG", "CANNOT_ANSWER", "CORRECT")
        assert record.gold_urls[0].startswith("https://example.org/wiki/")


def test_metrics_say_what_they_rest_on(evaluation: Path) -> None:
    metrics = metrics_of(evaluation)
    assert metrics["questions"] == {
        "n_questions": 8, "n_pages": 4, "n_with_gold_page": 8, "gold_outside_pool": 0, "gold_outside_listed": [],
        "on_train_pages": 0, "on_validation_pages": 0,
    }  # fmt: skip
    assert (metrics["pool"]["n_tiles"], metrics["pool"]["n_pages"]) == (12, 6)
    assert [line.split()[0] for line in metrics["stand_ins"]] == ["Questions", "The", "The"]
    assert "grounded/1" in metrics["stand_ins"][0] and "random weights" in metrics["stand_ins"][2]
    assert "the row bm25 searches" in metrics["stand_ins"][0] and "test pages included" in metrics["stand_ins"][2]
    assert metrics["learning_check"] == {
        "recall@1": 0.953125, "n_examples": 64, "n_tiles": 200, "chance": 0.01, "wanted": 0.9,
    }  # fmt: skip
    assert metrics["chance"]["tile"]["recall@1"] == pytest.approx(1 / 12)
    assert metrics["chance"]["page"]["recall@1"] == pytest.approx(2 / 12)
    cells = {cell["name"]: cell for cell in metrics["readers"]}
    assert cells["gold.as_is.base.k1"]["tokens"]["visual"] == 80.0
    assert cells["gold.c4.base.k1"]["tokens"]["visual"] == 20.0
    assert cells["gold.c4.base.k1"]["tokens"]["max"]["visual"] == 20


@pytest.mark.slow
def test_killed_twice_it_ends_byte_identical(world: Any, evaluation: Path, tmp_path: Path) -> None:
    out = tmp_path / "evaluation"
    config = config_yaml(tmp_path, world, out)
    partial = tmp_path / "evaluation.partial"
    cache = partial / ".cache"
    kill_when(config, lambda: list(cache.glob("vectors/*/.journal.jsonl")))
    kill_when(config, lambda: sum(map(lines, cache.glob("answers/*/.journal.jsonl"))) >= 2)
    assert sum(map(lines, cache.glob("ocr/*/.journal.jsonl"))) == 12
    finished = subprocess.run(command(config), env=environment(), capture_output=True, text=True, check=True)
    assert "learning check" in finished.stdout.lower() and "STAND-IN" in finished.stdout
    wanted, found = outputs(evaluation), outputs(out)
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if wanted[name] != found[name]] == []


def outputs(folder: Path) -> dict[str, bytes]:
    named = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    kept = {name: path.read_bytes() for name, path in named.items() if not name.startswith(("logs/", "manifest.json"))}
    metrics = json.loads(kept["metrics.json"])
    assert metrics.pop("latency")
    kept["metrics.json"] = json.dumps(metrics).encode()
    kept["report.html"] = re.sub(rb'<section id="latency">.*?</section>', b"", kept["report.html"], flags=re.DOTALL)
    return kept


def config_yaml(folder: Path, world: Any, out: Path) -> Path:
    """The config of the fixture's run as a YAML file."""

    def plain(value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value

    path = folder / "evaluate.yaml"
    config = world.config(out, **world.runs())
    given = [entry.name for entry in dataclasses.fields(config) if entry.init]
    settings = dataclasses.asdict(config)
    path.write_text(yaml.safe_dump({"kind": "stage"} | {name: plain(settings[name]) for name in given}))
    return path


def command(config: Path) -> list[str]:
    return [sys.executable, "-m", "tilewright.eval.evaluate", str(config)]


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "77"}


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_when(config: Path, ready: Any) -> None:
    """Start the stage; SIGKILL it (and the tools it started) as soon as ``ready()``."""
    with subprocess.Popen(
        command(config), env=environment(), start_new_session=True, stderr=subprocess.PIPE
    ) as process:
        deadline = time.monotonic() + 120
        while not ready():
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)


def light(world: Any, out: Path, **changes: Any) -> Any:
    """A config without models: only text rows."""
    settings = {"rows": ("bm25",), "compare": (), "readers": {}, "checkpoints": {}, "reader_checkpoints": {}}
    return world.config(out, **(settings | changes))


def test_arms_over_seeds_stand_in_metrics_and_report(world: Any, tmp_path: Path) -> None:
    rows, arms = ("bm25", "gold"), {"words": ("bm25",), "oracle": ("gold",)}
    run_stage(STAGE, light(world, tmp_path / "out", rows=rows, seeds=arms, compare_seeds=(("oracle", "words"),)))
    metrics = metrics_of(tmp_path / "out")
    for arm, (row,) in arms.items():
        for level in ("page", "tile"):
            for name, figure in metrics["seeds"]["arms"][arm][level].items():
                assert figure["value"] == metrics["rows"][row][level][name]["value"]
    assert metrics["seeds"]["differences"][0]["tile"]["recall@1"]["p_holm"] is not None
    assert "oracle − words, paired" in (tmp_path / "out" / "report.html").read_text()


def test_bad_questions_are_errors(world: Any, tmp_path: Path) -> None:
    pairs = read_jsonl(world.paths["pairs"], QAPair)
    twice, empty = tmp_path / "twice.jsonl", tmp_path / "empty.jsonl"
    write_jsonl(twice, [pairs[0], pairs[1], pairs[0]])
    write_jsonl(empty, [])
    with pytest.raises(InputError, match=r"twice\.jsonl.*'q00'"):
        run_stage(STAGE, light(world, tmp_path / "a", pairs=twice))
    with pytest.raises(InputError, match=r"empty\.jsonl"):
        run_stage(STAGE, light(world, tmp_path / "b", pairs=empty))


def test_questions_on_pages_of_other_splits_and_outside_the_pool_are_counted(world: Any, tmp_path: Path) -> None:
    pairs = read_jsonl(world.paths["pairs"], QAPair)
    splits = json.loads((world.paths["splits"] / "pages.json").read_text())
    leaked = [
        dataclasses.replace(pairs[0], query_id=f"leaked-{split}", page_id=page, tile_id=f"{page}-0000-00")
        for split, page in (("train", splits["train"][0]), ("validation", splits["validation"][0]))
    ]
    stranger = dataclasses.replace(pairs[0], query_id="stranger", page_id="f" * 16, tile_id=f"{'f' * 16}-0000-00")
    write_jsonl(tmp_path / "pairs.jsonl", [*pairs, *leaked, stranger])
    run_stage(STAGE, light(world, tmp_path / "out", pairs=tmp_path / "pairs.jsonl"))
    metrics = metrics_of(tmp_path / "out")
    counts = ("on_train_pages", "on_validation_pages", "gold_outside_pool")
    assert [metrics["questions"][name] for name in counts] == [1, 1, 1]
    assert metrics["questions"]["gold_outside_listed"] == ["stranger"]
    report = (tmp_path / "out" / "report.html").read_text()
    assert "NOT held out" in report and "count as missed" in report
    theirs = ir_measures.calc_aggregate(
        [ir_measures.parse_measure("Success@1")],
        list(ir_measures.read_trec_qrels(str(tmp_path / "out" / "qrels_pages.trec"))),
        list(ir_measures.read_trec_run(str(tmp_path / "out" / "runs" / "bm25.trec"))),
    )
    assert metrics["rows"]["bm25"]["page"]["recall@1"]["value"] == pytest.approx(next(iter(theirs.values())))


def test_missing_tool_is_an_error_or_shown(world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(language: str) -> str:
        raise MissingToolError("tesseract is not installed: `apt-get install tesseract-ocr`")

    monkeypatch.setattr(ocr, "require_tesseract", missing)
    with pytest.raises(MissingToolError, match=r"row 'ocr': tesseract is not installed.*missing_tool: not_run"):
        run_stage(STAGE, light(world, tmp_path / "a", rows=("bm25", "ocr")))
    out = tmp_path / "b"
    manifest = run_stage(
        STAGE, light(world, out, rows=("bm25", "ocr"), compare=(("bm25", "ocr"),), missing_tool="not_run")
    )
    row = metrics_of(out)["rows"]["ocr"]
    assert row["status"] == "not run" and "apt-get" in row["reason"] and manifest["counts"]["rows_not_run"] == 1
    assert metrics_of(out)["differences"] == []
    assert "not run: tesseract is not installed" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": ("bm52",)}, "no retriever 'bm52'; there are"),
        ({"rows": ("bm25", "trained")}, "no retriever 'trained'; there are"),
        ({"rows": (RowSpec("bm25", "as_is", "vlm"),)}, "no reader 'vlm'; there are"),
        ({"rows": (RowSpec("bm25", "c9"),)}, "no delivery 'c9'; there are"),
        ({"rows": ("bm25",), "retrievers": {"h": Hybrid("hybrid", ("bm25", "bm52"))}}, "h.of: wanted some of"),
        ({"retrievers": {"h": Hybrid("hybrid", ("bm25", "h"))}}, "fused once, found 'h' again"),
        ({"checkpoints": {"ocr": Checkpoint("", Path("x"))}}, "checkpoints: wanted names .* none of .* found 'ocr'"),
        ({"checkpoints": {"a/b": Checkpoint("", Path("x"))}}, "checkpoints: wanted names .* found 'a/b'"),
        ({"rows": ()}, "at least one"),
        ({"rows": ("bm25", "bm25")}, "each once"),
        ({"compare": (("bm25", "ocr"),)}, "compare: wanted rows of this run"),
        ({"seeds": {"arm": ("bm52",)}}, "seeds.arm: wanted retrievers or reader cells"),
        ({"ks": (3, 1)}, "rising ks"),
        ({"depth": 5}, "depth >= the last"),
        ({"threads": 0}, "threads: wanted at least 1"),
    ],
)
def test_bad_settings_are_errors(world: Any, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        light(world, tmp_path / "a", **changes)


def test_curves_and_checks_that_cannot_be_read_are_errors(world: Any, tmp_path: Path) -> None:
    folder = world.runs()["memorise_run"]
    (folder / "curve.jsonl").write_text('{"loss": 1.0}\n')
    try:
        with pytest.raises(InputError, match=r"curve\.jsonl:1: wanted an object with a whole number `step`"):
            run_stage(STAGE, light(world, tmp_path / "a", memorise_run=folder))
    finally:
        world.runs()
    with pytest.raises(InputError, match="wanted the folder of a finished stage"):
        run_stage(STAGE, light(world, tmp_path / "b", before=(world.root / "splits",)))


def test_yaml_names_the_row_that_is_wrong(world: Any, tmp_path: Path) -> None:
    path = config_yaml(tmp_path, world, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"evaluate\.yaml.*no retriever 'bm52'"):
        load(path, Config, ["rows=[bm52]", "compare=[]"])


def test_same_vectors_as_the_embedding_stage(world: Any, evaluation: Path, tmp_path: Path) -> None:
    """The hash that the report names is that of the checkpoint."""
    trained = world.paths["checkpoints"]["trained"].folder
    run_stage(EMBED, EmbedConfig(tmp_path / "vectors", trained, world.paths["tiles"], device="cpu"))
    stored = json.loads((tmp_path / "vectors" / "encoder.json").read_text())["hash"]
    assert metrics_of(evaluation)["rows"]["trained"]["facts"]["encoder_hash"] == stored[:16]
