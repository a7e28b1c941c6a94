"""The filters one by one on planted pairs, and what the stage reports."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.filter_pairs import STAGE, Config, figures, says
from tilewright.data_gen.make_queries import query_id
from tilewright.data_gen.records import Block, QAPair, Tile, read_jsonl, write_jsonl
from tilewright.data_gen.tile_store import write_store

GOOD = ("In which year was the moss hall of Harrow built?", "1801")


@pytest.fixture
def tiles(make_tile: Callable[..., Tile], make_block: Callable[..., Block]) -> list[Tile]:
    texts = {
        "Harrow": "The moss hall of Harrow was built in 1801. Harrow has 3 fern gardens. She saw Harrow in 1822."
        " The oldest clock of Harrow shows Green Time.",
        "Ashford": "The fern mill of Ashford has 9 wheels. The old fern wheel came to Ashford in 1855.",
        "Fern wheel": "The old fern wheel came to Ashford in 1855, from Larkspur.",
        "Larkspur": "Larkspur won the moss race in 1901. Larkspur won the moss race in 1902.",
    }
    return [make_tile(title, [make_block("paragraph", text)]) for title, text in texts.items()]


@pytest.fixture
def run(tiles: list[Tile], tmp_path: Path) -> Callable[..., tuple[dict[str, object], list[QAPair]]]:
    """run([(title, query, answer), ...], **settings) -> (counts, kept pairs)."""

    def stage(rows: list[tuple[str, str, str]], **settings: object) -> tuple[dict[str, object], list[QAPair]]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        (folder / "tiles").mkdir(parents=True)
        write_store(folder / "tiles" / "store", sorted(tiles, key=lambda tile: tile.tile_id))
        (folder / "pairs").mkdir()
        write_jsonl(folder / "pairs" / "pairs.jsonl", [pair(tiles, *row) for row in rows])
        values = {
            "min_key_terms": 2,
            "max_query_words": 40,
            "min_answer_characters": 1,
            "max_answer_words": 8,
        } | settings
        config = Config(out=folder / "out", judge="grounded", pairs=folder / "pairs", tiles=folder / "tiles", **values)  # type: ignore[arg-type]
        counts = run_stage(STAGE, config)["counts"]
        return counts, read_jsonl(folder / "out" / "pairs.jsonl", QAPair)

    return stage


def pair(tiles: list[Tile], title: str, query: str, answer: str) -> QAPair:
    tile = next(tile for tile in tiles if tile.title == title)
    number = query_id(tile.tile_id, query + answer)
    return QAPair(number, query, answer, (), tile.tile_id, tile.page_id, "", "paragraph", title, "grounded/1")


def drops(counts: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in counts.items() if name.startswith("dropped") and value}


def test_a_good_pair_is_kept(run: Callable[..., tuple[dict[str, object], list[QAPair]]]) -> None:
    counts, kept = run([("Harrow", *GOOD)])
    assert drops(counts) == {} and counts["kept"] == 1 and [pair.query for pair in kept] == [GOOD[0]]


@pytest.mark.parametrize(
    ("title", "query", "answer", "reason"),
    [
        ("Harrow", GOOD[0], "1805", "answer_not_on_tile"),
        ("Harrow", "The 3 fern gardens of Harrow are how many?", "3", "answer_in_query"),
        ("Harrow", "In which year did she see Harrow?", "1822", "not_self_contained_pronoun"),
        ("Harrow", "Which hall of Harrow is shown in this image?", "moss hall", "not_self_contained_layout_word"),
        ("Harrow", "In which year was the fern hall of Harrow sold?", "1801", "not_answerable"),
        ("Ashford", "In which year did the old fern wheel come to Ashford?", "1855", "not_unique"),
        ("Larkspur", "In which year did Larkspur win the moss race?", "1901", "contradicted"),
        ("Harrow", "The oldest clock of Harrow shows which time?", "Green Time", None),
    ],
)
def test_each_reason(
    run: Callable[..., tuple[dict[str, object], list[QAPair]]], title: str, query: str, answer: str, reason: str | None
) -> None:
    counts, kept = run([(title, query, answer), ("Harrow", *GOOD)])
    assert drops(counts) == ({f"dropped_{reason}": 1} if reason else {})
    assert len(kept) == counts["kept"] == (1 if reason else 2)


@pytest.mark.parametrize(
    ("query", "answer", "said"),
    [
        ("一九九九年建的大厅是哪一个?", "一九九九年", True),
        ("大厅是哪一年建的?", "一九九九年", False),
        ("首都は東京ですか?", "東京", True),
        ("京東の首都は?", "東京", False),
        ("Which hall of Harrow?", "Harrow Hall", False),
        ("Which hall of Harrow?", "harrow", True),
        ("Which hall?", "?!", False),
    ],
)
def test_what_a_query_says(query: str, answer: str, said: bool) -> None:
    assert says(query, answer) is said


def test_one_digit_answers_go_only_by_a_counted_threshold(
    run: Callable[..., tuple[dict[str, object], list[QAPair]]],
) -> None:
    rows = [("Ashford", "How many wheels has the fern mill of Ashford?", "9")]
    assert drops(run(rows)[0]) == {}
    assert drops(run(rows, min_answer_characters=2)[0]) == {"dropped_answer_too_short": 1}


def test_long_answers(run: Callable[..., tuple[dict[str, object], list[QAPair]]]) -> None:
    rows = [("Harrow", "What of Harrow was built in 1801?", "The moss hall of Harrow")]
    assert drops(run(rows, max_answer_words=3)[0]) == {"dropped_answer_too_long": 1}


def test_a_query_with_two_answers_goes_a_repeated_one_stays_once(
    run: Callable[..., tuple[dict[str, object], list[QAPair]]],
) -> None:
    query = "What has the fern mill of Ashford?"
    counts, kept = run([("Ashford", query, "9 wheels"), ("Ashford", query, "wheels"), ("Harrow", *GOOD)])
    assert drops(counts) == {"dropped_two_answers": 2} and len(kept) == 1
    counts, kept = run([("Harrow", *GOOD), ("Harrow", GOOD[0].replace("built", "Built"), GOOD[1])])
    assert drops(counts) == {"dropped_repeated": 1} and len(kept) == 1


def test_figures_tell_title_matches_from_others(tiles: list[Tile]) -> None:
    pairs = [
        pair(tiles, "Fern wheel", "Who bought the Fern Wheel of Ashford?", "x"),
        pair(tiles, "Fern wheel", "Which wheel came to Ashford?", "x"),
        pair(tiles, "Fern wheel", "What came to Ashford in 1855?", "x"),
    ]
    found = figures(pairs, {tile.page_id: tile.title for tile in tiles})
    assert (found["with_title"], found["without_title"], found["without_title_terms"]) == (1, 2, 1)
    assert found["share_without_title"] == 0.6667 and found["by_type"] == {"paragraph": 3}
    assert figures([], {})["share_without_title"] == 0.0


def test_order_does_not_change_what_is_kept(run: Callable[..., tuple[dict[str, object], list[QAPair]]]) -> None:
    rows = [
        ("Harrow", *GOOD),
        ("Harrow", "In which year was the moss hall of Harrow Built?", "1801"),
        ("Ashford", "How many wheels has the fern mill of Ashford?", "9"),
    ]
    first, second = run(rows), run(rows[::-1])
    assert first[0] == second[0] and sorted(first[1], key=str) == sorted(second[1], key=str)


def test_bad_input_is_named(
    run: Callable[..., tuple[dict[str, object], list[QAPair]]], tiles: list[Tile], tmp_path: Path
) -> None:
    tiles.append(dataclasses.replace(tiles[0], tile_id="f" * 16 + "-0000-00", page_id="f" * 16, title="Lost"))
    rows = [("Lost", *GOOD)]
    config_tiles = tiles[:-1]
    folder = tmp_path / "stranger"
    (folder / "pairs").mkdir(parents=True)
    write_store(folder / "store", sorted(config_tiles, key=lambda tile: tile.tile_id))
    write_jsonl(folder / "pairs" / "pairs.jsonl", [pair(tiles, *rows[0])])
    config = Config(folder / "out", "grounded", 2, 40, 1, 8, folder / "pairs", folder / "store")
    with pytest.raises(InputError, match=r"1 pairs are of tiles that .* lacks"):
        run_stage(STAGE, config)
    (folder / "pairs" / "pairs.jsonl").write_bytes(b"")
    with pytest.raises(InputError, match=r"pairs\.jsonl has no pair"):
        run_stage(STAGE, dataclasses.replace(config, out=folder / "none"))
    (folder / "pairs" / "pairs.jsonl").unlink()
    with pytest.raises(InputError, match=r"pairs\.jsonl is missing"):
        run_stage(STAGE, dataclasses.replace(config, out=folder / "other"))
