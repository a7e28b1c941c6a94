"""Splits by page: disjoint, stable, in the wanted shares, without near duplicates between them."""

import itertools
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.grounded.terms import key_terms
from tilewright.data_gen.records import Page, QAPair, read_jsonl, write_jsonl
from tilewright.data_gen.split_pairs import STAGE, Config, near_duplicates
from tilewright.data_gen.splits import SPLITS, split_of

SHARES = {"train": 0.6, "validation": 0.15, "test": 0.25}


def page_ids(count: int) -> list[str]:
    return [f"{number:016x}" for number in range(count)]


def corpus(folder: Path, queries: Mapping[str, list[str]], pages: list[str]) -> Config:
    """pairs.jsonl with ``queries`` {page_id: queries}, pages.jsonl with ``pages``."""
    (folder / "pairs").mkdir(parents=True)
    (folder / "tiles").mkdir()
    pairs = [
        QAPair(f"{page}{i}", query, "x", (), f"{page}-0000-00", page, "", "paragraph", "", "grounded/1")
        for page, own in queries.items()
        for i, query in enumerate(own)
    ]
    write_jsonl(folder / "pairs" / "pairs.jsonl", pairs)
    listed = [Page(page, f"https://x.org/{page}", page, "", "x", 875, 4000, True, 1) for page in pages]
    write_jsonl(folder / "tiles" / "pages.jsonl", listed)
    return Config(folder / "out", SHARES, 0, 0.8, folder / "pairs", folder / "tiles")


def test_no_page_in_two_splits_and_all_pages_listed(tmp_path: Path) -> None:
    pages = page_ids(60)
    queries = {page: [f"Who sold moss {page} to Harrow?", f"Who bought fern {page} of Ashford?"] for page in pages[:50]}
    config = corpus(tmp_path, queries, pages)
    counts = run_stage(STAGE, config)["counts"]
    listed = json.loads((config.out / "pages.json").read_text())
    assert list(listed) == list(SPLITS) and sorted(itertools.chain(*listed.values())) == pages
    total = 0
    for name in SPLITS:
        pairs = read_jsonl(config.out / f"{name}.jsonl", QAPair)
        assert {pair.page_id for pair in pairs} <= set(listed[name]) and counts[name] == len(pairs) > 0
        assert all(split_of(pair.page_id, SHARES, 0) == name for pair in pairs)
        assert counts["pages"][name]["all"] == len(listed[name])
        total += len(pairs)
    assert total == 100 and sum(counts["pages"][name]["with_pairs"] for name in SPLITS) == 50


def test_near_duplicates_leave_train_first_then_validation(tmp_path: Path) -> None:
    by_split = {name: [page for page in page_ids(60) if split_of(page, SHARES, 0) == name] for name in SPLITS}
    same = "In which year was the moss hall of Harrow built?"
    other = "Who sold the fern mill of Ashford to the monks?"
    queries = {
        by_split["train"][0]: [same, "How many clocks has the tower of Larkspur?"],
        by_split["validation"][0]: [other, "The moss hall of Harrow was built in which year?"],
        by_split["test"][0]: ["Which year saw the moss hall of Harrow built?"],
        by_split["train"][1]: [other],
        by_split["train"][2]: ["How many clocks has the tower of Larkspur?"],  # twice in one split: both stay
    }
    config = corpus(tmp_path, queries, page_ids(60))
    counts = run_stage(STAGE, config)["counts"]
    assert (counts["train"], counts["validation"], counts["test"]) == (2, 1, 1)
    assert counts["dropped_near_duplicate_train"] == 2 and counts["dropped_near_duplicate_validation"] == 1


def test_bad_input_is_named(tmp_path: Path) -> None:
    config = corpus(tmp_path, {}, [])
    (config.pairs / "pairs.jsonl").unlink()
    with pytest.raises(InputError, match=r"pairs\.jsonl is missing"):
        run_stage(STAGE, config)
    with pytest.raises(ValueError, match="add up to 1"):
        Config(tmp_path, SHARES | {"test": 0.5}, 0, 0.8, tmp_path, tmp_path)
    with pytest.raises(ValueError, match="wanted the keys"):
        split_of("0" * 16, {"train": 1.0}, 0)
    with pytest.raises(ValueError, match="max_similarity"):
        Config(tmp_path, SHARES, 0, 0.0, tmp_path, tmp_path)


def test_shares_are_met_and_seeds_differ() -> None:
    pages = page_ids(4000)
    found = Counter(split_of(page, SHARES, 0) for page in pages)
    for name, share in SHARES.items():
        assert found[name] / len(pages) == pytest.approx(share, abs=0.03)  # four standard deviations
    assert [split_of(page, SHARES, 0) for page in pages] != [split_of(page, SHARES, 1) for page in pages]


@given(st.text(max_size=16), st.integers(min_value=0), st.sampled_from(SPLITS))
def test_a_share_of_one_takes_all(page: str, seed: int, name: str) -> None:
    shares = dict.fromkeys(SPLITS, 0.0) | {name: 1.0}
    assert split_of(page, shares, seed) == name


@given(st.text(max_size=16), st.floats(min_value=0.0, max_value=0.5))
def test_growing_the_first_share_only_moves_pages_into_it(page: str, more: float) -> None:
    grown = {"train": 0.5 + more, "validation": 0.25 - more / 2, "test": 0.25 - more / 2}
    if split_of(page, {"train": 0.5, "validation": 0.25, "test": 0.25}, 0) == "train":
        assert split_of(page, grown, 0) == "train"


NOUNS = ("moss", "fern", "hall", "mill", "bridge", "clock", "tower", "garden", "harrow", "ashford")
WORDS = st.lists(st.sampled_from(NOUNS), max_size=6)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=6), st.lists(WORDS, max_size=6), st.sampled_from([0.5, 0.8, 1.0]))
def test_near_duplicates_equal_the_plain_definition(
    first: list[list[str]], second: list[list[str]], threshold: float
) -> None:
    queries, others = [" ".join(words) for words in first], [" ".join(words) for words in second]
    plain = set()
    for i, query in enumerate(queries):
        for other in others:
            mine, theirs = key_terms(query), key_terms(other)
            if mine and theirs and len(mine & theirs) / len(mine | theirs) >= threshold:
                plain.add(i)
    assert near_duplicates(queries, others, threshold) == plain
