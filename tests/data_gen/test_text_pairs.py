"""Query/passage pairs from page text: what is joined, cut, dropped and asked."""

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen import merge_pairs
from tilewright.data_gen.passages import PassageSettings, passages_of
from tilewright.data_gen.records import Block, TextPair, Tile, read_jsonl
from tilewright.data_gen.shingles import tokens
from tilewright.data_gen.store.rows import EVIDENCE_KINDS
from tilewright.data_gen.text_pairs import STAGE, Config
from tilewright.data_gen.tile_store import write_store

BOUNDS = PassageSettings(3, 12, ("see *",))


def block(text: str, section: str = "", kind: str = "paragraph", *, whole: bool = True) -> Block:
    return Block(kind, text, (), (), section, "", whole, 0.0, 0.0, 800.0, 20.0)


def tile(blocks: Sequence[Block], page: str = "a" * 16, *, row: int = 0, column: int = 0, title: str = "Moss") -> Tile:
    text = "\n".join(found.text for found in blocks)
    tile_id = f"{page}-{row:04d}-{column:02d}"
    url = f"https://x.org/{page}"
    place = (row, column, column * 875, row * 1024, 875, 1024)
    return Tile(
        tile_id, page, url, title, *place, b"", "0" * 64, text, dict.fromkeys(EVIDENCE_KINDS, 0), (), tuple(blocks)
    )


def texts(tiles: Sequence[Tile], bounds: PassageSettings = BOUNDS) -> tuple[list[str], Counter[str]]:
    drops: Counter[str] = Counter()
    return [passage.text for passage in passages_of(tiles, bounds, drops)], +drops


def test_paragraphs_that_tiles_cut_are_joined() -> None:
    first = [block("Whole one is here."), block("It goes on and", whole=False)]
    second = [block("never ends.\nSo it", whole=False), block("Ferns grow in the shade.", "Ferns")]
    assert texts([tile(first), tile(second, row=1)]) == (
        ["Whole one is here. It goes on and never ends. So it", "Ferns grow in the shade."],
        Counter(),
    )


def test_where_the_rest_is_missing_the_broken_sentence_goes() -> None:
    first = [block("Whole one is here."), block("This one ends here. It goes on and", whole=False)]
    third = [block("never ends. But this one does.", whole=False), block("Ferns grow in the shade.", "Ferns")]
    assert texts([tile(first), tile(third, row=2)]) == (
        ["Whole one is here. This one ends here. But this one does.", "Ferns grow in the shade."],
        Counter(),
    )
    # the first tile's first paragraph can't lack its start
    alone = [block("This is the start. And here it is cut", whole=False)]
    assert texts([tile(alone)])[0] == ["This is the start."]
    assert texts([tile(alone, row=1)])[0] == []


def test_other_columns_and_blocks_cut_at_their_side_are_left_out() -> None:
    blocks = [block("One is here."), block("Cut at its", whole=False), block("Two is here.")]
    found = texts([tile(blocks), tile([block("Right is another column.")], column=1)])
    assert found == (["One is here. Two is here."], Counter(cut_block=1))


def test_what_gives_no_passage_is_counted() -> None:
    blocks = [
        block("Main article: Moss"),
        block("Moss is green and small."),
        block("Seeds", "See also", "heading"),
        block("Ferns are green and large.", "See also"),
        block("Spores", "Spores", "heading"),
        block("Too short.", "Spores"),
        block("Word " * 20 + "is too long.", "Spores"),
        block("Moss", "Moss", "heading"),
        block("moss is GREEN, and small!", "Moss"),
        block("Mossy", "Mossy", "heading"),
        block("Further reading: Mosses", "Mossy", "list_item"),
        block("Stones are never as tall.", "Mossy"),
        block("Growth", "Growth", "heading"),
        block("Moss grows on damp ground", "Growth", "list_item"),
    ]
    assert texts([tile(blocks)], PassageSettings(4, 12, ("see *",))) == (
        ["Moss is green and small.", "Stones are never as tall.", "Moss grows on damp ground"],
        Counter(fragment=2, skipped_section=1, short_passage=1, long_sentence=1, duplicate_passage=1),
    )


def test_scripts_without_blanks_are_counted_and_cut() -> None:
    assert texts([tile([block("日本の首都は東京です。人口は多いです。山もあります。")])], PassageSettings(5, 20))[
        0
    ] == [
        "日本の首都は東京です。",
        "人口は多いです。 山もあります。",
    ]


@settings(deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=30))
def test_runs_keep_every_sentence_and_the_bound(lengths: list[int]) -> None:
    paragraph = " ".join(f"S{number} " + "word " * (length - 1) + "." for number, length in enumerate(lengths))
    paragraph = paragraph.replace(" .", ".")
    found, _ = texts([tile([block(paragraph)])], PassageSettings(1, 12))
    assert " ".join(found) == paragraph
    assert all(len(tokens(text)) <= 12 for text in found)
    assert len(found) <= 2 * -(-sum(lengths) // 12)


def corpus(folder: Path) -> Config:
    pages = [f"{number:016x}" for number in range(30)]
    tiles = []
    for page in pages:
        blocks = [
            block(
                f"Fern {page} is the first plant. It grows {page} feet tall. Some call it moss {page} instead.", "Fern"
            ),
            block("Uses", "Uses", "heading"),
            block(f"People ate {page} of it every year. Others sold {page} to the monks of Ashford.", "Uses"),
        ]
        tiles.append(tile(blocks, page, title="Fern" if page == pages[0] else f"Plant {page}"))
    write_store(folder / "tiles", tiles)
    (folder / "pages.json").write_text(json.dumps({"train": pages[:20], "validation": pages[20:], "test": []}))
    both = ("heading", "inverse_cloze")
    return Config(folder / "out", both, PassageSettings(5, 40), 3, 20, 0.5, 0, folder / "tiles", folder / "pages.json")  # type: ignore[arg-type]


def test_pairs_of_the_training_pages(tmp_path: Path) -> None:
    config = corpus(tmp_path)
    counts = run_stage(STAGE, config)["counts"]
    pairs = read_jsonl(config.out / "text_pairs.jsonl", TextPair, unique="pair_id")
    assert {pair.page_id for pair in pairs} == {f"{number:016x}" for number in range(20)}
    assert counts["tiles"] == counts["pages"] == 20 and counts["pairs"] == len(pairs)
    assert counts["by_method"] == Counter(pair.method for pair in pairs)
    assert counts["by_method"] == {"heading": 40, "inverse_cloze": 40}
    first = [pair for pair in pairs if pair.page_id == "0" * 16]
    headed = [pair for pair in first if pair.method == "heading"]
    assert [pair.query for pair in headed] == ["Fern", "Fern: Uses"]  # the lead's heading is the title again
    whole = {pair.page_id + pair.passage.split()[0]: pair.passage for pair in pairs if pair.method == "heading"}
    kept = 0
    for pair in pairs:
        if pair.method == "inverse_cloze":
            text = next(text for key, text in whole.items() if key.startswith(pair.page_id) and pair.query in text)
            kept += pair.query in pair.passage
            assert pair.passage in (text, text.replace(pair.query, "").replace("  ", " ").strip())
    assert 8 <= kept <= 32  # a half, four standard deviations


@pytest.mark.parametrize(("probability", "kept"), [(0.0, True), (1.0, False)])
def test_the_sentence_stays_or_goes(tmp_path: Path, probability: float, kept: bool) -> None:
    config = dataclasses.replace(corpus(tmp_path), removal_probability=probability, methods=("inverse_cloze",))
    run_stage(STAGE, config)
    pairs = read_jsonl(config.out / "text_pairs.jsonl", TextPair)
    assert pairs and all((pair.query in pair.passage) is kept for pair in pairs)


def test_the_seed_chooses_the_sentence_and_order_of_pages_does_not(tmp_path: Path) -> None:
    config = corpus(tmp_path)
    run_stage(STAGE, config)
    run_stage(STAGE, dataclasses.replace(config, seed=1, out=tmp_path / "other"))
    few = dataclasses.replace(config, pages=tmp_path / "few.json", out=tmp_path / "few")
    (tmp_path / "few.json").write_text(json.dumps({"train": [f"{number:016x}" for number in range(5)]}))
    run_stage(STAGE, few)
    found = {name: (tmp_path / name / "text_pairs.jsonl").read_text().splitlines() for name in ("out", "other", "few")}
    assert found["out"] != found["other"] and set(found["few"]) < set(found["out"])


SHARED = [
    "Ferns grow in the shade of old walls. Nobody waters them in the summer months.",
    "Moss covers the northern roofs of Ashford. It has been so since the great flood.",
    "The mill was sold to the monks twice. Each time they lost it to the miller again.",
    "Short one.",
    "Main article: Moss of the north",
]
PAGES = st.dictionaries(
    st.integers(0, 60),
    st.tuples(st.sampled_from(["Fern", "fern", "Moss"]), st.lists(st.sampled_from(SHARED), max_size=4)),
    min_size=1,
    max_size=12,
)


@settings(deadline=None, max_examples=25)
@given(pages=PAGES, parts=st.integers(1, 4))
def test_parts_put_together_are_the_result_of_one_run(
    tmp_path_factory: pytest.TempPathFactory, pages: dict[int, tuple[str, list[str]]], parts: int
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    tiles = []
    for number, (title, texts) in sorted(pages.items()):
        texts = [*texts, f"Page {number} is about {title}."]
        blocks = [block(text, f"Part {i % 2}") for i, text in enumerate(texts)]
        tiles.append(tile(blocks, f"{number:016x}", title=title))
    write_store(folder / "tiles", tiles)
    methods: Any = ("heading", "inverse_cloze")
    config = Config(folder / "whole", methods, PassageSettings(4, 24), 3, 20, 0.5, 0, folder / "tiles")
    whole = run_stage(STAGE, config)["counts"]
    folders = tuple(folder / str(number) for number in range(parts))
    each = [
        run_stage(STAGE, dataclasses.replace(config, out=out, shard=f"{number}/{parts}"))["counts"]
        for number, out in enumerate(folders)
    ]
    merged = run_stage(merge_pairs.STAGE, merge_pairs.Config(folder / "merged", folders[::-1]))["counts"]
    assert merged == whole
    assert (folder / "merged/text_pairs.jsonl").read_bytes() == (folder / "whole/text_pairs.jsonl").read_bytes()
    assert sum(counts["tiles"] for counts in each) == len(tiles)


def test_text_parts_that_do_not_fit_are_named(tmp_path: Path) -> None:
    config = corpus(tmp_path)
    folders = (tmp_path / "0", tmp_path / "1")
    for number, out in enumerate(folders):
        run_stage(STAGE, dataclasses.replace(config, out=out, shard=f"{number}/2"))
    path = folders[0] / "text_pairs.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    first = '"page_id": "' + "0" * 16 + '"'
    for changed, message in (
        (lines[:-1], "wanted the 40 pairs of its manifest, found 39"),
        ([lines[-1], *lines[:-1]], r"text_pairs\.jsonl:2: wanted pages of shard 0/2 in their order, found '0{16}'"),
        ([line.replace(first, first.replace('0"', '1"')) for line in lines], "found '0{15}1'"),
        ([line.replace(first, '"page_id": "no page"') for line in lines], "found 'no page'"),
    ):
        path.write_text("".join(changed))
        with pytest.raises(InputError, match=message):
            merge_pairs.merge_pairs(merge_pairs.Config(tmp_path, folders), {}, tmp_path)
        assert not (tmp_path / "text_pairs.jsonl").exists()


def test_a_part_without_pairs_is_no_error_but_no_pair_at_all_is(tmp_path: Path) -> None:
    write_store(tmp_path / "tiles", [tile([block("Moss is green and small here.")], "0" * 16)])
    config = Config(tmp_path / "0", ("heading",), PassageSettings(3, 12), 3, 20, 0.5, 0, tmp_path / "tiles")
    folders = (tmp_path / "0", tmp_path / "1")
    for number, out in enumerate(folders):
        counts = run_stage(STAGE, dataclasses.replace(config, out=out, shard=f"{number}/2"))["counts"]
        assert (counts["pages"], counts["pairs"]) == ((1, 1), (0, 0))[number]
    assert run_stage(merge_pairs.STAGE, merge_pairs.Config(tmp_path / "m", folders))["counts"]["pairs"] == 1
    strict = dataclasses.replace(config, passages=PassageSettings(50, 60))
    empty = (tmp_path / "2", tmp_path / "3")
    for number, out in enumerate(empty):
        run_stage(STAGE, dataclasses.replace(strict, out=out, shard=f"{number}/2"))
    with pytest.raises(InputError, match="wanted at least one text pair in the parts, found none"):
        run_stage(merge_pairs.STAGE, merge_pairs.Config(tmp_path / "n", empty))


def test_bad_settings_and_empty_results_are_named(tmp_path: Path) -> None:
    config = corpus(tmp_path)
    with pytest.raises(ValueError, match="methods: wanted at least one"):
        dataclasses.replace(config, methods=())
    with pytest.raises(ValueError, match="max_query_words: wanted at least 3, found 2"):
        dataclasses.replace(config, max_query_words=2)
    with pytest.raises(ValueError, match="removal_probability: wanted 0 to 1"):
        dataclasses.replace(config, removal_probability=1.5)
    with pytest.raises(ValueError, match="max_words: wanted at least 9"):
        PassageSettings(9, 8)
    with pytest.raises(InputError, match=r"20 tiles of 20 pages gave no text pair \(short_passage: 40\)"):
        run_stage(STAGE, dataclasses.replace(config, passages=PassageSettings(50, 60)))
    with pytest.raises(InputError, match=r"pages\.json: wanted .* 'train'"):
        (tmp_path / "pages.json").write_text("[]")
        run_stage(STAGE, config)
