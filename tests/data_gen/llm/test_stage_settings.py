"""What a stage's config refuses before any call is made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.data_gen import natural, self_contained, text_pairs
from tilewright.data_gen.generation import GenerationSettings
from tilewright.data_gen.llm import LlmSettings
from tilewright.data_gen.llm_judge import JudgePrompts
from tilewright.data_gen.passages import PassageSettings
from tilewright.data_gen.text_questions import QuestionSettings

URL = "http://127.0.0.1:9/v1"
Settings = Callable[..., LlmSettings]

PROMPTS: list[tuple[str, Callable[[LlmSettings, str], Any]]] = [
    ("generate", lambda llm, name: GenerationSettings(prompt=name)),
    ("text_pairs", lambda llm, name: QuestionSettings(prompt=name)),
    ("answer", lambda llm, name: JudgePrompts(answer=name)),
    ("judge", lambda llm, name: JudgePrompts(judge=name)),
    ("self_contained", lambda llm, name: self_contained.Config(Path("o"), llm, pairs=Path("p"), prompt=name)),
    ("naturalness", lambda llm, name: natural.Config(Path("o"), llm, 3, pairs=Path("p"), prompt=name)),
]


@pytest.mark.parametrize(("kind", "make"), PROMPTS, ids=[kind for kind, _ in PROMPTS])
def test_a_prompt_is_a_version_of_its_own_kind(
    kind: str, make: Callable[[LlmSettings, str], Any], settings: Settings
) -> None:
    llm = settings(URL)
    make(llm, f"{kind}.v1")
    others = [f"{other}.v1" for other, _ in PROMPTS if other != kind]
    for wrong in (*others, kind, f"{kind}.v99", "", "../x", f"{kind}.v01"):
        with pytest.raises(ValueError, match=rf"wanted one of \['{kind}\.v1'"):
            make(llm, wrong)


@pytest.mark.parametrize("language", ["", " ", "a\nb", "a\u2028b", "x\u202e", "\x00"])
def test_a_language_stands_on_one_line(language: str) -> None:
    for kind in (GenerationSettings, QuestionSettings):
        with pytest.raises(ValueError, match="language"):
            kind(language=language)
    assert GenerationSettings(language="中文").language == QuestionSettings(language="中文").language


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_text_pairs_bounds_the_share_of_errors(share: float, settings: Settings) -> None:
    common: dict[str, Any] = {"tiles": Path("t"), "llm": settings(URL)}
    with pytest.raises(ValueError, match="max_error_share"):
        text_pairs.Config(
            Path("o"), ("questions",), PassageSettings(5, 100), 2, 40, 1.0, 0, max_error_share=share, **common
        )
