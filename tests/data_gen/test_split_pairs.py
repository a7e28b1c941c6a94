"""Splits by page: disjoint, stable, in the wanted shares, without near duplicates between them."""

import dataclasses
import itertools
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.grounded.terms import key_terms
from tilewright.data_gen.records import Block, Page, QAPair, Tile, read_jsonl, write_jsonl
from tilewright.data_gen.review_page import REVIEW
from tilewright.data_gen.split_pairs import STAGE, Config, near_duplicates, strata
from tilewright.data_gen.splits import SPLITS, pages_of_split, split_of, stratified
from tilewright.data_gen.tile_store import write_store

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
    return Config(folder / "out", SHARES, False, 0, 0.8, folder / "pairs", folder / "tiles")


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


def test_near_duplicates_of_scripts_without_blanks() -> None:
    others = ["苔藓大厅是哪一年建成的?", "ห้องโถงมอสสร้างเมื่อปีใด?"]
    queries = [
        "苔藓大厅是哪一年建成的",  # the same
        "请问苔藓大厅是哪一年建成的?",  # 2 of 12 pairs more
        "谁卖了阿什福德的磨坊?",
        "苔藓磨坊是由谁建成的?",
        "ห้องโถงมอสสร้างเมื่อปีใด",
        "When was the moss hall built?",
    ]
    assert near_duplicates(queries, others, 0.8) == {0, 1, 4}
    assert near_duplicates(["Moss hall of Harrow 苔?"], ["moss hall of harrow 藓"], 0.8) == set()


def test_kept_pairs_are_shown_with_their_split_and_tile(
    tmp_path: Path, make_tile: Callable[..., Tile], make_block: Callable[..., Block]
) -> None:
    tiles = [make_tile(f"Town {n}", [make_block("paragraph", f"Moss {n} was sold.")]) for n in range(20)]
    tiles.sort(key=lambda tile: tile.tile_id)
    queries = {tile.page_id: [f"Who sold moss {tile.page_id} to Harrow?"] for tile in tiles}
    plain = corpus(tmp_path, queries, [tile.page_id for tile in tiles])
    run_stage(STAGE, plain)
    assert not (plain.out / REVIEW).exists()  # and no tile was looked for
    write_store(tmp_path / "tiles/store", tiles[1:])
    config = dataclasses.replace(plain, out=tmp_path / "reviewed", review_pairs=9)
    with pytest.raises(InputError, match="1 pairs are of tiles that the tile store lacks"):
        run_stage(STAGE, config)
    write_store(tmp_path / "whole", tiles)
    shutil.copytree(tmp_path / "whole", tmp_path / "tiles/store", dirs_exist_ok=True)
    run_stage(STAGE, config)
    articles = (config.out / REVIEW).read_text().split("<article")[1:]
    place = {pair.query_id: name for name in SPLITS for pair in read_jsonl(config.out / f"{name}.jsonl", QAPair)}
    assert len(articles) == 9
    for article in articles:
        query_id, page = re.findall(r"query_id&quot;: &quot;(\w+)&quot;, &quot;page_id&quot;: &quot;(\w+)", article)[0]
        assert f'<dt>split</dt><dd><span dir="auto">{place[query_id]}</span>' in article
        assert f"<code>{page}-0000-00</code>" in article and "&quot;outcome&quot;: &quot;kept&quot;" in article
    for name in (*SPLITS, "pages"):
        file = next(plain.out.glob(f"{name}.json*"))
        assert file.read_bytes() == (config.out / file.name).read_bytes()


def test_bad_input_is_named(tmp_path: Path) -> None:
    config = corpus(tmp_path, {}, [])
    with pytest.raises(InputError, match=r"pairs\.jsonl has no pair"):
        run_stage(STAGE, config)
    (config.pairs / "pairs.jsonl").unlink()
    with pytest.raises(InputError, match=r"pairs\.jsonl is missing"):
        run_stage(STAGE, config)
    with pytest.raises(ValueError, match="add up to 1"):
        Config(tmp_path, SHARES | {"test": 0.5}, False, 0, 0.8, tmp_path, tmp_path)
    with pytest.raises(ValueError, match="wanted the keys"):
        split_of("0" * 16, {"train": 1.0}, 0)
    with pytest.raises(ValueError, match="max_similarity"):
        Config(tmp_path, SHARES, False, 0, 0.0, tmp_path, tmp_path)
    with pytest.raises(ValueError, match="max_evaluation_similarity: wanted above 0"):
        Config(tmp_path, SHARES, False, 0, 0.8, tmp_path, tmp_path, max_evaluation_similarity=1.1)
    with pytest.raises(ValueError, match="shingle_words: wanted at least 1"):
        Config(tmp_path, SHARES, False, 0, 0.8, tmp_path, tmp_path, shingle_words=0)


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


KINDS = ("infobox", "list", "paragraph", "table")


def pairs_of(kinds: Mapping[str, list[str]]) -> list[QAPair]:
    """Pairs of {page_id: kinds of its pairs}; no two questions are alike."""
    return [
        QAPair(f"{page}{i}", f"Who sold fern {page}{i}?", "x", (), f"{page}-0000-00", page, "", kind, "", "grounded/1")
        for page, own in kinds.items()
        for i, kind in enumerate(own)
    ]


def test_each_kind_is_laid_out_by_the_shares(tmp_path: Path) -> None:
    pages = page_ids(130)
    kinds = {page: [KINDS[i % 4]] * 3 + ["paragraph"] for i, page in enumerate(pages[:120])}
    config = dataclasses.replace(corpus(tmp_path, {}, pages), stratify=True)
    write_jsonl(config.pairs / "pairs.jsonl", pairs_of(kinds))
    counts = run_stage(STAGE, config)["counts"]
    listed = json.loads((config.out / "pages.json").read_text())
    assert sorted(itertools.chain(*listed.values())) == pages
    for name, share in SHARES.items():
        for kind in KINDS:
            own = sum(1 for page in listed[name] if kinds.get(page, [""])[0] == kind)
            assert abs(own - 30 * share) <= 1, (name, kind)  # by digest alone this holds for one seed in thousands
        assert set(pages[120:]) & set(listed[name]) == {p for p in pages[120:] if split_of(p, SHARES, 0) == name}
        assert counts["by_type"][name] == Counter(
            pair.source_type for pair in read_jsonl(config.out / f"{name}.jsonl", QAPair)
        )


def test_a_page_counts_by_the_kind_of_most_of_its_pairs() -> None:
    found = strata(pairs_of({"a": ["table", "list", "table"], "b": ["table", "list"], "c": ["image"]}))
    assert found == {"a": "table", "b": "list", "c": "image"}


@given(st.dictionaries(st.text(max_size=4), st.sampled_from("xyz"), min_size=1, max_size=40), st.integers(0, 99))
def test_strata_keep_to_the_shares_and_to_themselves(kinds: dict[str, str], seed: int) -> None:
    places = stratified(kinds, SHARES, seed)
    assert places == stratified(dict(reversed(kinds.items())), SHARES, seed) and places.keys() == kinds.keys()
    for kind in set(kinds.values()):
        own = [page for page in kinds if kinds[page] == kind]
        alone = stratified(dict.fromkeys(own, kind), SHARES, seed)
        assert {page: places[page] for page in own} == alone
        for name, share in SHARES.items():
            assert abs(sum(alone[page] == name for page in own) - share * len(own)) < 2


def test_a_new_page_moves_only_pages_beside_the_cuts() -> None:
    kinds = dict.fromkeys(page_ids(300), "table")
    before = stratified(kinds, SHARES, 0)
    moved = [page for page, name in stratified(kinds | {"new": "table"}, SHARES, 0).items() if before.get(page) != name]
    assert len(set(moved) - {"new"}) <= 2
    singles = Counter(stratified({"page": "table"}, SHARES, seed)["page"] for seed in range(400))
    assert all(abs(singles[name] / 400 - share) < 0.1 for name, share in SHARES.items())


def test_evaluation_sets_take_their_pages_and_questions_away(tmp_path: Path) -> None:
    pages = page_ids(60)
    by_split = {name: [page for page in pages if split_of(page, SHARES, 0) == name] for name in SPLITS}
    gold, bare, other, tested = by_split["train"][0], by_split["train"][1], by_split["train"][2], by_split["test"][0]
    queries = {
        gold: ["Who sold the moss mill of Ashford?", "When was the tower built at Larkspur?"],
        other: ["In which year was the fern hall of Harrow built?", "Who bought the bell of Ashford?"],
        tested: ["How many clocks has the tower of Larkspur?"],
    }
    config = corpus(tmp_path, queries, pages)
    (tmp_path / "nq.jsonl").write_text(
        "\ufeff"
        + json.dumps({"question": "in what year was the fern hall of harrow built", "gold_urls": None})
        + "\n\n"
        + json.dumps({"query": "Who?", "url": f"https://x.org:443/{gold}#part", "urls": [f"https://x.org/{bare}"]})
        + "\n",
        encoding="utf-8",
    )
    clean = run_stage(STAGE, config)["counts"]
    assert not (config.out / "decontamination.jsonl").exists() and "evaluation_sets" not in clean
    config = dataclasses.replace(config, evaluation_sets=(tmp_path / "nq.jsonl",), out=tmp_path / "clean")
    counts = run_stage(STAGE, config)["counts"]
    assert (clean["train"], clean["test"]) == (4, 1) and (counts["train"], counts["test"]) == (1, 1)
    assert counts["dropped_evaluation_gold_page"] == 2 and counts["dropped_evaluation_near_duplicate_question"] == 1
    assert counts["dropped_evaluation_by_type"] == {
        "gold_page": {"paragraph": 2},
        "near_duplicate_question": {"paragraph": 1},
    }
    assert counts["evaluation_sets"]["nq.jsonl"] == {
        "questions": 2,
        "gold_pages": 2,
        "gold_page": 2,
        "near_duplicate_question": 1,
    }
    report = [json.loads(line) for line in (config.out / "decontamination.jsonl").read_text().splitlines()]
    assert [(entry["query_id"], entry["reason"], entry["matched"], entry["similarity"]) for entry in report] == [
        (f"{gold}0", "gold_page", f"https://x.org/{gold}", 1.0),
        (f"{gold}1", "gold_page", f"https://x.org/{gold}", 1.0),
        (f"{other}0", "near_duplicate_question", "in what year was the fern hall of harrow built", 0.636364),  # 7 / 11
    ]
    listed = json.loads((config.out / "pages.json").read_text())
    assert listed["evaluation"] == sorted((gold, bare)) and sorted(itertools.chain(*listed.values())) == pages


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


@pytest.mark.parametrize("pages", ['{"test": "0000000000000001"}', '{"test": [1]}', '{"train": []}', "[]", "{"])
def test_pages_of_a_split_are_a_list_of_ids(pages: str, tmp_path: Path) -> None:
    (tmp_path / "pages.json").write_text(pages)
    with pytest.raises(InputError, match="with 'test' as split_pairs writes it"):
        pages_of_split(tmp_path / "pages.json", "test")
