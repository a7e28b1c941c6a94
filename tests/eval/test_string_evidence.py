"""Evidence by string: whole words, normalised as answers are."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tilewright.eval.string_evidence import holds, visible


@pytest.mark.parametrize(
    ("text", "answer", "held"),
    [
        ("He was born in 1965.", "1965", True),
        ("He was born in 1965.", "19", False),
        ("a 1,000-year reich", "1000", True),
        ("São Paulo", "Sao  paulo", True),
        ("Jean–Luc", "Jean-Luc", True),
        ("the Beatles came", "Beatles", True),
        ("New\u00a0York", "new york", True),
        ("pi is 3.14", "314", False),
        ("...", "...", False),
        ("anything", "", False),
        ("", "x", False),
    ],
)
def test_whole_words(text: str, answer: str, held: bool) -> None:
    assert holds(text, [answer]) is held
    assert holds(text, ["no such thing", answer]) is held


@given(st.from_regex(r"[a-z]{2,8}( [a-z0-9]{2,8})?", fullmatch=True), st.text(max_size=30), st.text(max_size=30))
def test_what_stands_between_blanks_is_held(answer: str, before: str, after: str) -> None:
    assume("the" not in answer.split() and "an" not in answer.split())
    assert holds(f"{before} . {answer} . {after}", [answer])


def test_cells_of_html_are_words_of_their_own() -> None:
    assert holds(visible("<tr><th>Founded</th><td>1701</td></tr>"), ["1701"])
    assert visible("a &lt;b&gt; c") == "a <b> c"
