"""Digest pages: every fact on so many further pages of its split; a browser shows them, truth and judge agree."""

import dataclasses
import json
from collections import Counter
from pathlib import Path

import pytest

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen import find_positives, merge_tiles, render_tiles
from tilewright.data_gen.find_positives import Positives
from tilewright.data_gen.make_digest_pages import STAGE, Config, Copy, statement_of
from tilewright.data_gen.records import Block, Page, QAPair, Tile, read_jsonl, write_jsonl
from tilewright.data_gen.splits import SPLITS
from tilewright.data_gen.tile_store import TileStore, write_store

PLACES = ("Norwick", "Aldmoor", "Ketterby", "Sandholm", "Brackwell", "Torvald")
SPLIT_OF = dict(zip(PLACES, ("train", "train", "train", "validation", "test", "test"), strict=True))
SENTENCE = "{name} was founded in {year} by the miller Ansel <Brandt> & sons."
WHOLE = {"section": "", "caption": "", "whole": True, "x_px": 0.0, "y_px": 0.0, "width_px": 9.0, "height_px": 9.0}


def page_of(place: str) -> str:
    return f"{PLACES.index(place) + 1:016x}"


def tile_of(place: str) -> Tile:
    sentence = SENTENCE.format(name=place, year=1700 + PLACES.index(place))
    row = Block("table_row", f"North mill {place}ford", ("North mill", f"{place}ford"), ("Mill", "River"), **WHOLE)
    pair = Block("infobox_row", f"County {place}shire", ("County", f"{place}shire"), (), **WHOLE)
    text = "\n".join((sentence, row.text, pair.text))
    page = page_of(place)
    blocks = (Block("paragraph", sentence, (), (), **WHOLE), row, pair)
    evidence = {"infobox": 0, "table": 0, "list": 0, "paragraph": 9}
    url = f"http://localhost/{page}"
    return Tile(f"{page}-0000-00", page, url, place, 0, 0, 0, 0, 64, 64, b"", "0" * 64, text, evidence, blocks=blocks)


def pairs_of(place: str) -> list[QAPair]:
    tile = tile_of(place)
    year, sentence = str(1700 + PLACES.index(place)), tile.blocks[0].text
    asked = [
        (f"In which year was {place} founded by the miller Ansel Brandt?", year, sentence, "paragraph"),
        (f"Who founded {place} in {year}?", "the miller Ansel <Brandt> & sons", sentence, "paragraph"),
        (f"What is the river of the North mill ({place})?", f"{place}ford", tile.blocks[1].text, "table"),
        (f"What is the county of {place}?", f"{place}shire", tile.blocks[2].text, "infobox"),
    ]
    return [
        QAPair(f"{place.lower()}{i}", query, answer, (), tile.tile_id, tile.page_id, span, kind, place, "test/1")
        for i, (query, answer, span, kind) in enumerate(asked)
    ]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "pairs").mkdir()
    for split in SPLITS:
        found = [pair for place in PLACES if SPLIT_OF[place] == split for pair in pairs_of(place)]
        write_jsonl(tmp_path / "pairs" / f"{split}.jsonl", found)
    listed = {split: [page_of(place) for place in PLACES if SPLIT_OF[place] == split] for split in SPLITS}
    (tmp_path / "pairs" / "pages.json").write_text(json.dumps(listed))
    tiles = [tile_of(place) for place in PLACES]
    write_store(tmp_path / "tiles" / "store", tiles)
    pages = [Page(tile.page_id, tile.url, tile.title, "", "test", 64, 64, True, 1) for tile in tiles]
    write_jsonl(tmp_path / "tiles" / "pages.jsonl", pages)
    return Config(
        tmp_path / "out", copies=3, facts_per_page=4, seed=1, pairs=tmp_path / "pairs", tiles=tmp_path / "tiles"
    )


def test_every_fact_stands_on_as_many_pages_as_asked(config: Config) -> None:
    counts = run_stage(STAGE, config)["counts"]
    copies = read_jsonl(config.out / "copies.jsonl", Copy)
    pages = read_jsonl(config.out / "pages.jsonl", Page, unique="page_id")
    assert counts["facts"] == {"train": 9, "test": 6}, "two questions of one sentence ask about one fact"
    assert counts["pages_by_split"] == {"train": 3 * 3, "test": 3 * 2} and counts["pages"] == len(pages) == 15
    places = Counter(query_id for copy in copies for query_id in copy.query_ids)
    asked = {pair.query_id for place in PLACES if SPLIT_OF[place] != "validation" for pair in pairs_of(place)}
    assert places == dict.fromkeys(asked, 3)
    assert len({(copy.page_id, copy.statement) for copy in copies}) == len(copies) == 3 * (9 + 6)
    assert "North mill" in {copy.statement.split(";")[0].removeprefix("Mill: ") for copy in copies}
    html = {page.page_id: (config.out / page.html_path).read_text() for page in pages}
    assert all("&lt;Brandt&gt; &amp; sons" in html[copy.page_id] for copy in copies if "Brandt" in copy.statement)
    assert not any("<Brandt>" in text or "http" in text for text in html.values())


def test_a_digest_page_belongs_to_the_split_of_its_facts(config: Config) -> None:
    run_stage(STAGE, config)
    listed = json.loads((config.out / "splits" / "pages.json").read_text())
    split_of = {page: split for split, pages in listed.items() for page in pages}
    assert len(split_of) == sum(map(len, listed.values())) == len(PLACES) + 15, "no page in two splits"
    own = {pair.query_id: SPLIT_OF[place] for place in PLACES for pair in pairs_of(place)}
    for copy in read_jsonl(config.out / "copies.jsonl", Copy):
        assert {own[query_id] for query_id in copy.query_ids} == {split_of[copy.page_id]}
    for split in SPLITS:
        name = f"{split}.jsonl"
        assert (config.out / "splits" / name).read_text() == (config.pairs / name).read_text()


def test_the_same_seed_gives_the_same_files_and_another_other_pages(config: Config) -> None:
    one, again, other = (
        dataclasses.replace(config, out=config.out.with_name(name), seed=seed)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    for each in (one, again, other):
        run_stage(STAGE, each)
    assert output_digests(one.out) == output_digests(again.out) != output_digests(other.out)


def test_rows_are_restated_with_their_labels_and_sentences_as_they_stand() -> None:
    tile = tile_of("Norwick")
    first, _, row, info = (statement_of(pair, tile) for pair in pairs_of("Norwick"))
    assert first == tile.blocks[0].text
    assert (row, info) == ("Mill: North mill; River: Norwickford", "County: Norwickshire")


def test_a_split_without_pairs_is_refused(config: Config) -> None:
    write_jsonl(config.pairs / "test.jsonl", [])
    with pytest.raises(InputError, match="wanted pairs in split test"):
        run_stage(STAGE, config)
    with pytest.raises(ValueError, match="splits: wanted some of"):
        dataclasses.replace(config, splits=("dev",))


def changed(config: Config, split: str, **values: str) -> None:
    """The first pair of ``split``, with ``values``."""
    path = config.pairs / f"{split}.jsonl"
    first, *others = read_jsonl(path, QAPair)
    write_jsonl(path, [dataclasses.replace(first, **values), *others])


@pytest.mark.parametrize("span", ["", " — "])
def test_a_pair_without_words_to_restate_is_refused(config: Config, span: str) -> None:
    changed(config, "train", source_span=span)
    with pytest.raises(InputError, match="norwick0: source_span: wanted words to restate"):
        run_stage(STAGE, config)


@pytest.mark.parametrize("listed", ["[]", '{"train": []}', "{", '{"train": [], "validation": [], "test": null}'])
def test_a_list_of_pages_that_split_pairs_did_not_write_is_refused(config: Config, listed: str) -> None:
    (config.pairs / "pages.json").write_text(listed)
    with pytest.raises(InputError, match=r"pages\.json: wanted"):
        run_stage(STAGE, config)


def test_pairs_and_copies_of_another_corpus_are_refused(config: Config) -> None:
    """Else every copy would be on no tile, and no negative ever be false."""
    run_stage(STAGE, config)
    finding = find_positives.Config(config.out.parent / "positives", config.pairs, config.tiles)
    with pytest.raises(InputError, match="no page of these copies has a tile"):
        run_stage(find_positives.STAGE, dataclasses.replace(finding, copies=config.out / "copies.jsonl"))
    changed(config, "test", query_id="norwick0")
    with pytest.raises(InputError, match=r"test\.jsonl: query_id 'norwick0' stands in split train too"):
        run_stage(find_positives.STAGE, finding)
    changed(config, "test", query_id="other", tile_id="", page_id="")
    counts = run_stage(find_positives.STAGE, dataclasses.replace(finding, out=config.out.parent / "one"))["counts"]
    assert counts["test"]["judged"] == 1, "a question that names no tile"
    changed(config, "test", tile_id=f"{'f' * 16}-0000-00", page_id="f" * 16)
    with pytest.raises(InputError, match="1 pairs are of tiles that the tile store lacks"):
        run_stage(find_positives.STAGE, finding)


@pytest.mark.browser
def test_rendered_copies_are_found_by_truth_and_by_the_judge(config: Config) -> None:
    run_stage(STAGE, config)
    root = config.out.parent
    rendered = render_tiles.Config(root / "digests", None, None, pages=config.out, workers=1)
    run_stage(render_tiles.STAGE, rendered)
    with pytest.raises(ValueError, match="splits: wanted with `pages`"):
        merge_tiles.Config(root / "all", (config.tiles, rendered.out), splits=("test",))
    merged = merge_tiles.Config(root / "all", (config.tiles, rendered.out))
    run_stage(merge_tiles.STAGE, merged)
    listed = config.out / "splits" / "pages.json"
    part = dataclasses.replace(merged, out=root / "part", pages=listed, splits=("validation", "test"))
    counts = run_stage(merge_tiles.STAGE, part)["counts"]
    wanted = {page for split in part.splits for page in json.loads(listed.read_text())[split]}
    assert {tile.page_id for tile in TileStore.open(part.out).iterate_light()} == wanted
    assert (counts["pages"], counts["pages_without_tiles"]) == (len(wanted), 0)
    more = root / "more_pages.json"
    more.write_text(json.dumps({"test": [*json.loads(listed.read_text())["test"], "f" * 16]}))
    unseen = dataclasses.replace(part, out=root / "unseen", pages=more, splits=("test",))
    assert run_stage(merge_tiles.STAGE, unseen)["counts"]["pages_without_tiles"] == 1
    finding = find_positives.Config(root / "positives", config.pairs, merged.out, config.out / "copies.jsonl")
    counts = run_stage(find_positives.STAGE, finding)["counts"]
    assert counts["train"] == {"pairs": 12, "with_positives": 12, "stated": 36, "judged": 36, "both": 36}
    assert counts["validation"]["stated"] == counts["validation"]["judged"] == 0
    found = {one.query_id: one for one in read_jsonl(finding.out / "positives.jsonl", Positives)}
    pages = {pair.query_id: pair.page_id for place in PLACES for pair in pairs_of(place)}
    assert not any(tile_id.startswith(pages[name]) for name, one in found.items() for tile_id in one.tile_ids)
