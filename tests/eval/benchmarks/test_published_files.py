"""Every benchmark from a file in the format it is published in, through the stage, to its record."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import read_jsonl
from tilewright.eval.benchmarks.question import EvalQuestion
from tilewright.eval.benchmarks.registry import BENCHMARKS
from tilewright.eval.make_questions import STAGE, Config

WIKI = "https://en.wikipedia.org/wiki/"
NQ_URL = "https://en.wikipedia.org//w/index.php?title=Velmar_Bridge&amp;oldid=837"


def png() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (20, 20), "red").save(buffer, "PNG")
    return buffer.getvalue()


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def table(delimiter: str, *rows: dict[str, str]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def parquet(*rows: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), buffer)
    return buffer.getvalue()


NQ_SIMPLE = {
    "example_id": 1,
    "question_text": "who built it",
    "document_url": NQ_URL,
    "document_text": "<P> Built by Ora Fen </P>",
    "long_answer_candidates": [],
    "annotations": [
        {"short_answers": [{"start_token": 3, "end_token": 5}], "yes_no_answer": "NONE", "long_answer": {}}
    ],
}
NQ_HUB = {
    "id": "1",
    "document": {"title": "Velmar Bridge", "url": NQ_URL, "html": "", "tokens": {"token": ["a"], "is_html": [False]}},
    "question": {"text": "who built it", "tokens": ["who"]},
    "annotations": {
        "id": ["7"],
        "long_answer": [{"start_token": 0}],
        "short_answers": [{"start_token": [3], "end_token": [5], "text": ["Ora Fen"]}],
        "yes_no_answer": [-1],
    },
}
NQ_TABLE = {
    "id": "17",
    "questions": [{"id": "17_0", "originalText": "who built it", "answer": {"answerTexts": ["Ora Fen"]}}],
    "table": {"documentUrl": NQ_URL, "documentTitle": "Velmar Bridge", "columns": [], "rows": []},
}
URLS = {"topic": "Art", "answer_type": "Person", "urls": [f"{WIKI}Velmar_Bridge"]}
SIMPLEQA = {"metadata": str(URLS), "problem": "who built it", "answer": "Ora Fen"}
FRAMES = {
    "": "0",
    "Prompt": "who built it",
    "Answer": "Ora Fen",
    "wikipedia_link_1": f"{WIKI}Velmar_Bridge",
    "wiki_links": str([f"{WIKI}Velmar_Bridge"]),
}
MUSIQUE = {
    "id": "2hop__1_2",
    "paragraphs": [{"idx": 0, "title": "Velmar Bridge", "paragraph_text": "x", "is_supporting": True}],
    "question": "who built it",
    "answer": "Ora Fen",
    "answer_aliases": [],
    "answerable": True,
}
HOTPOT = {"_id": "5a", "question": "who built it", "answer": "Ora Fen", "supporting_facts": [["Velmar Bridge", 0]]}
HOTPOT_HUB = {
    "id": "5a",
    "question": "who built it",
    "answer": "Ora Fen",
    "supporting_facts": {"title": ["Velmar Bridge"], "sent_id": [0]},
}
PAIRS = [{"question": "who?", "short_answers": ["Ora Fen"], "context": "", "wikipage": None}]
ASQA = {
    "ambiguous_question": "who built it",
    "qa_pairs": PAIRS,
    "wikipages": [{"title": "x", "url": f"{WIKI}Velmar_Bridge"}],
}
EVQA = {
    "question": "who built it",
    "answer": "Ora Fen",
    "dataset_image_ids": "none|abcd",
    "dataset_name": "landmarks",
    "question_type": "automatic",
    "wikipedia_url": f"{WIKI}Velmar_Bridge",
}
LIVE = {
    "question": "who built it",
    "options": ["A. Mira", "B. Ora Fen"],
    "Ground_Truth": "B",
    "Ground_Truth_List": ["Ora Fen"],
    "img_path": "abcd.png",
}
MMSEARCH = {
    "sample_id": "n0",
    "query": "who built it",
    "query_image": {"bytes": png(), "path": "a.png"},
    "gt_answer": "Ora Fen",
    "alternative_gt_answers": [],
}
MONACO = {"ex_num": 3, "question": "who built it", "decomposition": [], "validated_answer": ["Ora Fen"]}

FILES: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "nq simplified": ("nq", "a.jsonl.gz", lambda: gzip.compress(lines(NQ_SIMPLE))),
    "nq hub": ("nq", "a.parquet", lambda: parquet(NQ_HUB)),
    "nq_tables": ("nq_tables", "dev.jsonl", lambda: lines(NQ_TABLE)),
    "simpleqa": ("simpleqa", "simple_qa_test_set.csv", lambda: table(",", SIMPLEQA)),
    "mmsearch": ("mmsearch", "end2end.parquet", lambda: parquet(MMSEARCH)),
    "encyclopedic_vqa": ("encyclopedic_vqa", "test.csv", lambda: table(",", EVQA)),
    "livevqa": ("livevqa", "benchmark.json", lambda: json.dumps([{"id": "1", "level1_qa": LIVE}]).encode()),
    "monaco": ("monaco", "monaco_version_1_release.jsonl", lambda: lines(MONACO)),
    "frames": ("frames", "test.tsv", lambda: table("\t", FRAMES)),
    "musique": ("musique", "musique_ans_v1.0_dev.jsonl", lambda: lines(MUSIQUE)),
    "hotpotqa": ("hotpotqa", "hotpot_dev_distractor_v1.json", lambda: json.dumps([HOTPOT]).encode()),
    "hotpotqa hub": ("hotpotqa", "a.parquet", lambda: parquet(HOTPOT_HUB)),
    "asqa": ("asqa", "ASQA.json", lambda: json.dumps({"train": {}, "dev": {"-9": ASQA}}).encode()),
    "asqa hub": ("asqa", "a.parquet", lambda: parquet(ASQA | {"sample_id": "-9"})),
}


@pytest.mark.parametrize("name", FILES)
def test_published_files_become_questions(name: str, tmp_path: Path) -> None:
    benchmark, file, content = FILES[name]
    (tmp_path / file).write_bytes(content())
    (tmp_path / "images").mkdir()
    (tmp_path / "images/abcd.png").write_bytes(png())
    split = "dev" if file == "ASQA.json" else None
    images = tmp_path / "images" if benchmark in ("encyclopedic_vqa", "livevqa") else None
    config = Config(tmp_path / "out", benchmark, (tmp_path / file,), images=images, split=split)
    counts = run_stage(STAGE, config)["counts"]
    assert (counts["rows"], counts["questions"], counts["gold_urls_unusable"]) == (1, 1, 0)
    (found,) = read_jsonl(config.out / "questions.jsonl", EvalQuestion)
    assert (found.query, found.answer, found.benchmark) == ("who built it", "Ora Fen", benchmark)
    assert found.query_id.startswith(f"{benchmark}-")
    without_gold = ("mmsearch", "monaco", "livevqa")
    assert found.gold_urls == (() if benchmark in without_gold else (f"{WIKI}Velmar_Bridge",))
    assert bool(found.image) == (benchmark in ("mmsearch", "encyclopedic_vqa", "livevqa"))


def test_no_benchmark_is_left_out() -> None:
    assert {benchmark for benchmark, *_ in FILES.values()} == set(BENCHMARKS)
