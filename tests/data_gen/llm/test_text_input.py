"""A model that can't see is sent the text of tiles: questions and answers by rule, no picture in any request."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.stage import run_stage
from tilewright.data_gen import answerable, make_queries
from tilewright.data_gen.gates import GateConfig
from tilewright.data_gen.generation import GenerationSettings
from tilewright.data_gen.llm import ImagePart, LlmSettings
from tilewright.data_gen.llm_judge import JudgePrompts, LlmJudge
from tilewright.data_gen.pair_outcomes import read_outcomes
from tilewright.data_gen.prompts import load_prompt
from tilewright.data_gen.records import QAPair, Tile, read_jsonl
from tilewright.data_gen.tile_request import tile_request

RULES = r"""
import json, re
TILE = re.compile(r"\[BEGIN tile [0-9a-f]+\]\nThe moss hall of (.*?) was built of fern stone in (\d+)\.\n\[END")

def shown(prompt):
    assert not prompt.images, "no picture"
    return TILE.search(prompt.text).groups()

def generate(prompt):
    town, year = shown(prompt)
    pair = {"query": f"When was the moss hall of {town} built?", "answer": year, "aliases": [],
            "source_span": f"fern stone in {year}", "source_type": "paragraph", "subject": town}
    return json.dumps({"skip": None, "pairs": [pair]})

def answer(prompt):
    town, year = shown(prompt)
    return json.dumps({"answer": "CANNOT_ANSWER" if int(year) % 5 == 0 else year})

RULES = [("Write questions that this text answers", generate),
         ("Answer the question from this text alone", answer)]
"""


def test_questions_are_made_and_answered_from_texts(
    serve: Callable[..., Any], settings: Callable[..., LlmSettings], tiles: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(RULES)
    llm = settings(serve("--rules", rules), max_tokens=500)
    queries = make_queries.Config(
        tmp_path / "queries",
        "openai",
        2,
        GateConfig(0, False, (), 1.0, 0, 0.0, 0.0, None),
        tiles=tiles,
        llm=llm,
        generation=GenerationSettings(prompt="generate_text.v1"),
    )
    counts = run_stage(make_queries.STAGE, queries)["counts"]
    assert counts["pairs"] == counts["tiles"] > 0 and counts["annotator"].startswith("m/generate_text.v1@")
    answers = answerable.Config(
        tmp_path / "answers", llm, pairs=queries.out, tiles=tiles, prompts=JudgePrompts("answer_text.v1")
    )
    counts = run_stage(answerable.STAGE, answers)["counts"]
    assert counts["input"] == "text" and counts["prompts"].startswith("answer_text.v1@")
    wanted = {
        pair.query_id: "cannot_answer" if int(pair.answer) % 5 == 0 else "kept"
        for pair in read_jsonl(queries.out / "pairs.jsonl", QAPair)
    }
    assert {one.query_id: one.outcome for one in read_outcomes(answers.out / "outcomes.jsonl")} == wanted


def test_the_template_says_what_is_sent(make_tile: Callable[..., Tile]) -> None:
    tile = make_tile("Harrow", [])
    seen = tile_request(load_prompt("answer.v1"), "answer", tile, query="Who?")
    read = tile_request(load_prompt("answer_text.v1"), "answer", tile, query="Who?")
    assert [type(part) for part in seen.parts] == [ImagePart, str] and [type(part) for part in read.parts] == [str]
    assert (LlmJudge(JudgePrompts()).sees_pictures, LlmJudge(JudgePrompts("answer_text.v1")).sees_pictures) == (1, 0)
    assert GenerationSettings().sees_pictures and not GenerationSettings(prompt="generate_text.v1").sees_pictures


def test_a_text_shows_no_pictures() -> None:
    with pytest.raises(ValueError, match=r"kind_shares\.image: wanted a prompt with pictures"):
        GenerationSettings(prompt="generate_text.v1", kind_shares={"image": 0.1, "table": 0.9})
    GenerationSettings(prompt="generate_text.v1", kind_shares={"image": 0.0, "table": 1.0})
