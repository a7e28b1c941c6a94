"""Grading stored predictions: a real server that answers by rule, fails for some, fails for all, comes back."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.stage import StageError
from tilewright.data_gen.llm import LlmSettings
from tilewright.eval.graders import ExactGrader, Graded, ToGrade, TokenF1Grader
from tilewright.eval.grading import Grade
from tilewright.eval.grading_judge import EXACT, JUDGE, JudgeGrader
from tilewright.eval.grading_run import EMPTY, NO_VERDICT, regrade

SERVER = Path(__file__).parent.parent / "data_gen/llm/scripted_server.py"
RULES = r"""
import re

BLOCKS = re.compile(r"\[BEGIN (\w+) [0-9a-f]+\]\n(.*?)\n\[END", re.DOTALL)

def grade(prompt):
    blocks = dict(BLOCKS.findall(prompt.text))
    aliases = blocks["aliases"].splitlines()
    assert len(aliases) <= 10 and not prompt.images, "at most ten aliases, no pictures"
    if "mumble" in blocks["prediction"]:
        return "It could be A or B."
    if any(known in blocks["prediction"] for known in [blocks["answer"], *aliases]):
        return '{"grade": "CORRECT"}'
    return "C" if "know" in blocks["prediction"] else "**B: INCORRECT**"

RULES = [("Grade the given answer against the known one", grade)]
"""
Serve = Callable[..., tuple[LlmSettings, Path]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """serve("--fault-rate", "0.1", ...) -> (settings that reach a server, its log of calls)."""
    processes: list[subprocess.Popen[str]] = []
    (tmp_path / "rules.py").write_text(RULES)

    def start(*options: str) -> tuple[LlmSettings, Path]:
        log = tmp_path / f"calls{len(processes)}.jsonl"
        command = [sys.executable, str(SERVER), "--log", str(log), "--rules", str(tmp_path / "rules.py"), *options]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert processes[-1].stdout is not None
        url = processes[-1].stdout.readline().strip()
        return LlmSettings("m", 0.0, 50, base_url=url, seed=42, max_retries=0, attempts=2, call_timeout_s=30.0), log

    yield start
    for process in processes:
        process.kill()
        process.wait()


def calls(log: Path) -> int:
    return sum(json.loads(line)["event"] == "start" for line in log.read_text().splitlines()) if log.exists() else 0


def items(count: int = 60) -> list[ToGrade]:
    """Of five: a sentence with the answer, another year, none, the answer itself, an alias in a sentence."""
    says = ("It was built in {}.", "It was built in 1066.", "I don't know.", "{}", "Built MDC{}")
    made = []
    for number in range(count):
        year = str(1800 + number)
        aliases = (f"MDC{year}", *(f"other way {n}" for n in range(15)))
        made.append(
            ToGrade(f"row/q{number}", f"When was hall {number} built?", (year, *aliases), says[number % 5].format(year))
        )
    return made


def test_the_judge_decides_and_is_asked_once(serve: Serve, tmp_path: Path) -> None:
    settings, log = serve()
    predictions = [
        *items(),
        ToGrade("row/failed", "q", ("x",), None, "reader: timed out"),
        ToGrade("row/empty", "q", ("x",), " "),
    ]
    predictions.append(ToGrade("row/mumbled", "q", ("x",), "mumble"))
    found = regrade(predictions, JudgeGrader(), tmp_path / "out", llm=settings, max_error_share=0.05)
    assert list(found.graded) == [item.key for item in predictions] and found.grader.startswith("grade.v1@")
    grades = [found.graded[f"row/q{n}"] for n in range(5)]
    assert [one.grade for one in grades] == [
        Grade.CORRECT, Grade.INCORRECT, Grade.NOT_ATTEMPTED, Grade.CORRECT, Grade.CORRECT,
    ]  # fmt: skip
    assert [one.by for one in grades] == [JUDGE, JUDGE, JUDGE, EXACT, JUDGE]
    assert found.graded["row/failed"] == Graded(None, None, "reader", "reader: timed out")
    assert found.graded["row/empty"] == Graded(0.0, Grade.NOT_ATTEMPTED, EMPTY)
    assert found.graded["row/mumbled"] == Graded(None, Grade.UNPARSED, "judge: unparsed")
    assert found.counts == {
        "n": 63, "n_graded": 61, "n_errors": 1, "n_unparsed": 1, "n_correct": 36, "n_incorrect": 12,
        "n_not_attempted": 13, "n_empty": 1,
    }  # fmt: skip
    assert found.complete and calls(log) == 48 + 2  # two attempts at what can't be read
    values, failed = found.arrays(["row/q0", "row/failed", "row/empty", "row/mumbled"])
    assert list(failed) == [False, True, False, True] and list(values[~failed]) == [1.0, 0.0] and np.isnan(values[1])
    again = regrade(predictions, JudgeGrader(), tmp_path / "out", llm=settings, max_error_share=0.05)
    assert again == found and calls(log) == 50


def test_a_grader_that_is_down_for_some_is_incomplete_and_goes_on_later(serve: Serve, tmp_path: Path) -> None:
    settings, log = serve("--fault-rate", "0.1", "--faults", "http_500", "--seed", "1")
    found = regrade(items(), JudgeGrader(), tmp_path / "out", llm=settings, max_error_share=0.02)
    failed = {key for key, one in found.graded.items() if one.error is not None}
    assert 2 <= len(failed) <= 12 and all(
        found.graded[key] == Graded(None, None, "grader", NO_VERDICT) for key in failed
    )
    assert not found.complete and found.counts["n_errors"] == len(failed)
    assert found.counts["n_graded"] == 60 - len(failed) and found.counts["n"] == 60
    healthy, later = serve()
    whole = regrade(items(), JudgeGrader(), tmp_path / "out", llm=healthy, max_error_share=0.02)
    assert whole.complete and whole.counts["n_graded"] == 60 and calls(later) == len(failed)
    assert {key: one for key, one in whole.graded.items() if key not in failed} == {
        key: one for key, one in found.graded.items() if key not in failed
    }
    assert calls(log) == 48


def test_a_grader_that_is_down_for_all_stops_the_stage(serve: Serve, tmp_path: Path) -> None:
    settings, _ = serve("--fault-rate", "1", "--faults", "http_500", "--most-faults", "100")
    with pytest.raises(StageError):
        regrade(items(), JudgeGrader(), tmp_path / "out", llm=settings, max_error_share=1.0)
    nobody = LlmSettings("m", 0.0, 50, base_url="http://127.0.0.1:9/v1", max_retries=0)
    with pytest.raises(StageError):
        regrade(items(5), JudgeGrader(), tmp_path / "other", llm=nobody, max_error_share=1.0)


def test_other_graders_need_no_server(tmp_path: Path) -> None:
    predictions = [*items(5), ToGrade("empty", "q", ("x",), "")]
    exact = regrade(predictions, ExactGrader(), tmp_path, max_error_share=0.0)
    assert exact.counts["n_correct"] == 1 and exact.counts["n_graded"] == 6 and exact.complete
    scores = regrade(predictions, TokenF1Grader(), tmp_path, max_error_share=0.0)
    assert scores.counts["n_graded"] == 6 and scores.graded["empty"].score == 0.0
    assert scores.graded["row/q0"].score == pytest.approx(2 / 6)
    assert not list(tmp_path.iterdir())
    assert regrade([], ExactGrader(), tmp_path, max_error_share=0.0).complete


def test_odd_input_is_refused(tmp_path: Path) -> None:
    one = items(1)
    with pytest.raises(InputError, match="'row/q0' comes twice"):
        regrade(one * 2, ExactGrader(), tmp_path, max_error_share=0.0)
    with pytest.raises(InputError, match="a prediction or an error"):
        regrade([ToGrade("k", "q", ("a",), None)], ExactGrader(), tmp_path, max_error_share=0.0)
    with pytest.raises(InputError, match="wanted the settings of a model"):
        regrade(one, JudgeGrader(), tmp_path, max_error_share=0.0)
    with pytest.raises(ValueError, match=r"wanted one of \['grade\.v1'\]"):
        JudgeGrader(prompt="judge.v1")
