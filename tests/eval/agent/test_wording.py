"""Texts of pages in a prompt: they open and close nothing, and stay themselves otherwise."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.eval.agent.defusing import attribute, defused
from tilewright.eval.agent.wording import joined, shown_results
from tilewright.eval.parts import Item

TOKENS = [
    "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<｜Assistant｜>", "<start_of_turn>",
    "<end_of_turn>", "<eos>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_RESULTS]", "[gMASK]", "<<SYS>>", "<</SYS>>",
    "<tool_call>",
    "</tool_response>", "<think>", "</think>", "<function=search>", "<|channel|>", "<|vision_start|>",
    "<result>", "</results>", "< /Results >", "<search>", "</ANSWER>", '<results search="2">',
]  # fmt: skip
HARMLESS = [
    "a < b and b > c", "<p>1705</p>", "<table class=infobox><tr><th>Founded</th>", "[1]", "[citation needed]", "x<y",
    "<small>", "<strong>a</strong>", "<resulting>", "<answering machine>", "&lt;answer>",
]  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
def test_every_delimiter_is_defused(token: str) -> None:
    text, count = defused(f"before {token} after")
    assert count >= 1 and token not in text and "before " in text and " after" in text


@pytest.mark.parametrize("text", HARMLESS)
def test_all_else_stays_as_it_is(text: str) -> None:
    assert defused(text) == (text, 0)


PAGES = st.lists(st.sampled_from(TOKENS) | st.text(max_size=6), max_size=6).map("".join)


@given(PAGES)
def test_defusing_is_idempotent_and_leaves_no_token(text: str) -> None:
    once, _ = defused(text)
    assert defused(once) == (once, 0)
    assert not [token for token in TOKENS if token in once]


@given(st.lists(st.tuples(PAGES, PAGES), max_size=3))
def test_results_have_one_frame_whatever_pages_hold(pages: list[tuple[str, str]]) -> None:
    items = [Item(f"t{n}", "p", "text_chunk", text, title=title) for n, (text, title) in enumerate(pages)]
    shown = shown_results(7, items, "", inline=True)
    (said,) = joined(shown.parts)
    assert isinstance(said, str) and said.startswith('<results search="7">\n') and said.endswith("</results>")
    assert len(re.findall(r"<\s*/?\s*results\b", said, re.IGNORECASE)) == 2
    assert len(re.findall(r"<\s*/?\s*result\b", said, re.IGNORECASE)) == 2 * len(items)
    assert not re.findall(r"<\s*/?\s*(?:answer|search)\b", said, re.IGNORECASE)
    assert bool(shown.forged) == any(defused(text)[1] for page in pages for text in page)


@given(st.text())
def test_a_title_stays_within_its_quotes(text: str) -> None:
    said = attribute(text)
    assert not set('<>"\n') & set(said) and len(said.splitlines()) <= 1
