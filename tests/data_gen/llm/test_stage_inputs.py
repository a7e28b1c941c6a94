"""Inputs that a stage can't use, or that need no call, are told apart before anything is asked."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.stage import StageError, dry_run, run_stage
from tilewright.data_gen import answerable, make_queries, natural, self_contained
from tilewright.data_gen.annotator import Generated, RawPair
from tilewright.data_gen.gates import GateConfig
from tilewright.data_gen.llm import LlmSettings
from tilewright.data_gen.pair_outcomes import read_outcomes
from tilewright.data_gen.records import QAPair, Tile, write_jsonl
from tilewright.data_gen.tile_store import TileStore, write_store

RULES = Path(__file__).with_name("stage_rules.py")
GATES = GateConfig(0, False, (), 1.0, 0, 0.0, 0.0, None)
Settings = Callable[..., LlmSettings]


@pytest.fixture
def pairs(tiles: Path, tmp_path: Path) -> Callable[..., Path]:
    """pairs(answer, ...) -> folder of one pair for each answer, each of another tile."""

    def make(*answers: str) -> Path:
        made = [
            QAPair(
                f"{number:016x}", f"When was the hall of {tile.title} built?", answer, (), tile.tile_id, tile.page_id,
                "", "paragraph", tile.title, "x",
            )
            for number, (answer, tile) in enumerate(zip(answers, TileStore.open(tiles).iterate_light(), strict=False))
        ]  # fmt: skip
        (tmp_path / "pairs").mkdir()
        write_jsonl(tmp_path / "pairs/pairs.jsonl", made)
        return tmp_path / "pairs"

    return make


def test_a_pair_without_an_answer_is_dropped_and_never_judged(
    pairs: Callable[..., Path], serve: Callable[..., Any], settings: Settings, tiles: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text('RULES = [("from this tile alone", lambda p: "x"), ("says the same", lambda p: "CORRECT")]\n')
    server = serve("--rules", rules)
    config = answerable.Config(tmp_path / "out", settings(server), pairs=pairs("", " ?! ", "1801"), tiles=tiles)
    counts = run_stage(answerable.STAGE, config)["counts"]
    outcomes = [outcome.outcome for outcome in read_outcomes(tmp_path / "out/outcomes.jsonl")]
    assert outcomes == ["no_known_answer", "no_known_answer", "kept"]
    assert (counts["pairs"], counts["kept"], counts["dropped_no_known_answer"]) == (3, 1, 2)
    assert len(server.calls()) == 2, "the tile is read and the answer judged for one pair"


def test_one_failed_question_asked_alone_is_a_small_share_of_all(
    pairs: Callable[..., Path], serve: Callable[..., Any], settings: Settings, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(
        "import re\n"
        "def rule(prompt):\n"
        "    count = len(re.findall(r'^[0-9]+[.] When', prompt.text, re.MULTILINE))\n"
        "    if count == 1:\n        raise ValueError('the connection drops')\n"
        "    return '\\n'.join(f'{number}. YES' for number in range(2, count + 1))\n"
        "RULES = [('', rule)]\n"
    )
    folder = pairs(*(str(1800 + number) for number in range(20)))
    llm = settings(serve("--rules", rules), max_retries=0, max_tokens=500)
    config = self_contained.Config(tmp_path / "out", llm, pairs=folder, per_call=20, max_error_share=0.04)
    with pytest.raises(StageError, match="1 of 1 items failed"):
        run_stage(self_contained.STAGE, config)
    counts = run_stage(self_contained.STAGE, dataclasses.replace(config, max_error_share=0.05))["counts"]
    assert (counts["pairs"], counts["kept"], counts["dropped_error"]) == (20, 19, 1)


def test_tiles_of_another_corpus_are_refused_before_the_first_call(
    pairs: Callable[..., Path],
    serve: Callable[..., Any],
    settings: Settings,
    make_tile: Callable[..., Tile],
    tmp_path: Path,
) -> None:
    (tmp_path / "others").mkdir()
    write_store(tmp_path / "others/store", [make_tile("Elsewhere", [])])
    server = serve("--rules", RULES)
    common: dict[str, Any] = {"pairs": pairs("1801"), "tiles": tmp_path / "others", "review_pairs": 1}
    contained = self_contained.Config(tmp_path / "contained", settings(server), **common)
    score = natural.Config(tmp_path / "natural", settings(server), 2, **common)
    for run in (
        lambda: run_stage(self_contained.STAGE, contained),
        lambda: run_stage(natural.STAGE, score),
    ):
        with pytest.raises(InputError, match="tiles that the tile store lacks"):
            run()
    assert not server.calls()


def test_a_store_without_pictures_is_refused_before_the_first_call(
    pairs: Callable[..., Path], serve: Callable[..., Any], settings: Settings, tiles: Path, tmp_path: Path
) -> None:
    folder = pairs("1801")
    write_store(tiles / "store", list(TileStore.open(tiles)), keep_images=False)
    server = serve("--rules", RULES)
    queries = make_queries.Config(tmp_path / "queries", "openai", 2, GATES, tiles=tiles, llm=settings(server))
    answers = answerable.Config(tmp_path / "answers", settings(server), pairs=folder, tiles=tiles)
    for run in (
        lambda: run_stage(make_queries.STAGE, queries),
        lambda: run_stage(answerable.STAGE, answers),
        lambda: dry_run(make_queries.STAGE, queries),
        lambda: dry_run(answerable.STAGE, answers),
    ):
        with pytest.raises(InputError, match="without their images"):
            run()
    assert not server.calls()


def test_a_pair_said_twice_is_one_pair_and_two_answers_are_none(make_tile: Callable[..., Tile]) -> None:
    def raw(query: str, answer: str) -> RawPair:
        return RawPair(query, answer, (), "span", "paragraph", "x")

    found = Generated((raw("A?", "1"), raw("B?", "2"), raw("A?", "1"), raw("C?", "3"), raw("C?", "4"), raw("A?", "1")))
    made = make_queries.asked(found, dataclasses.replace(make_tile("T", [])), "m")
    assert [(pair["query"], pair["answer"]) for pair in made["pairs"]] == [("A?", "1"), ("B?", "2")]
    assert made["dropped"] == {"repeated_on_tile": 2, "two_answers_on_tile": 2}
    assert json.dumps(made)
