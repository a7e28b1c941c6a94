"""From questions.jsonl to the questions of an evaluation."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import write_jsonl
from tilewright.data_gen.urls import page_id
from tilewright.eval.benchmarks.question import EvalQuestion
from tilewright.eval.gold_coverage import Redirects
from tilewright.eval.question_file import read_questions

WIKI = "https://en.wikipedia.org/wiki/"
PAGES = {page_id(WIKI + name): WIKI + name for name in ("Paris", "Oslo")}
ONE = EvalQuestion(
    "a-1",
    "Where?",
    "Paris",
    ("Lutetia",),
    (f"{WIKI}Lutetia", f"{WIKI}Rome"),
    "a",
    image="images/x",
    options=("Paris", "Rome"),
)


def test_gold_pages_pictures_and_clusters(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")
    (tmp_path / "images").mkdir()
    (tmp_path / "images/x").write_bytes(buffer.getvalue())
    bare = EvalQuestion("a-2", "Which?", "x; y", (), (), "a", answer_parts=(("x",), ("y",)))
    write_jsonl(tmp_path / "questions.jsonl", [ONE, bare])
    redirects = Redirects({"en.wikipedia.org/wiki/Lutetia": "en.wikipedia.org/wiki/Paris"})
    for path in (tmp_path, tmp_path / "questions.jsonl"):
        (one, other), coverage = read_questions(path, PAGES, redirects)
        assert one.gold_pages == {page_id(f"{WIKI}Paris"), page_id(f"{WIKI}Rome")}
        assert one.answers == ("Paris", "Lutetia") and one.picture == buffer.getvalue() and one.options == ONE.options
        assert one.cluster == page_id(f"{WIKI}Lutetia") and one.gold_urls == ONE.gold_urls
        assert (other.gold_pages, other.cluster, other.picture) == (frozenset(), "question a-2", b"")
        assert other.answer_parts == (("x",), ("y",))
        assert coverage.counts["questions_with_some_gold_outside_corpus"] == 1
        assert coverage.outside == (("a-1", f"{WIKI}Rome"),)


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "questions.jsonl", [ONE])
    with pytest.raises(InputError, match="wanted the query picture 'images/x'"):
        read_questions(tmp_path, PAGES)
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in/questions.jsonl", [replace(ONE, image="../secret")])
    with pytest.raises(InputError, match=r"wanted the query picture '\.\./secret'"):
        read_questions(tmp_path / "in", PAGES)
    bare = replace(ONE, image="")
    write_jsonl(tmp_path / "questions.jsonl", [bare, bare])
    with pytest.raises(InputError, match="query_id 'a-1' stands twice"):
        read_questions(tmp_path, PAGES)
    (tmp_path / "questions.jsonl").write_text(json.dumps({"query_id": 3}))
    with pytest.raises(InputError, match=r"questions\.jsonl:1"):
        read_questions(tmp_path, PAGES)
    with pytest.raises(InputError, match="is missing"):
        read_questions(tmp_path / "none", PAGES)
