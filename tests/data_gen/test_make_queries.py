"""The make_queries stage in real processes: gates counted, resumable, the same bytes whatever happens."""

import dataclasses
import io
import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.gates import GateConfig
from tilewright.data_gen.images import decode_image, image_sha256
from tilewright.data_gen.make_queries import STAGE, Config, query_id
from tilewright.data_gen.records import Block, Page, QAPair, Tile, read_jsonl, write_jsonl
from tilewright.data_gen.tile_store import write_store

GATES = GateConfig(3000, True, ("*(disambiguation)*",), 0.7, 3, 4.0, 0.05, None)
YAML = """kind: stage
tiles: tiles
out: queries
annotator: grounded
max_pairs_per_tile: 10
gates: {min_page_height_px: 0, require_complete: false, blocked: [], first_share: 1.0, min_words: 0, min_ink: 0.01,
  min_text_density: 0.0, near_duplicate_bits: 12}
"""


def drawn(tile: Tile, ink: bool) -> Tile:
    """``tile`` with a picture of its own: white, or about half of its squares black."""
    image = Image.new("RGB", (80, 80), "white")
    chance = random.Random(tile.tile_id)
    for x, y in itertools.product(range(0, 80, 8), range(0, 80, 8)):
        if ink and chance.random() < 0.5:
            image.paste("black", (x, y, x + 8, y + 8))
    return pictured(tile, image)


def pictured(tile: Tile, image: Image.Image, kind: str = "PNG", **options: object) -> Tile:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return dataclasses.replace(tile, image=buffer.getvalue(), image_sha256=image_sha256(image))


@pytest.fixture
def town_tile(make_tile: Callable[..., Tile], make_block: Callable[..., Block]) -> Callable[..., Tile]:
    def build(i: int, row: int = 0, ink: bool = True, text: str | None = None) -> Tile:
        text = f"The moss hall of Harrow Town {i} was built of fern stone in {1800 + i}." if text is None else text
        return drawn(make_tile(f"Harrow Town {i}", [make_block("paragraph", text)], row=row), ink)

    return build


def corpus(folder: Path, tiles: list[Tile], **page_fields: object) -> Path:
    """What render_tiles leaves: a store and pages.jsonl."""
    folder.mkdir(parents=True)
    write_store(folder / "store", sorted(tiles, key=lambda tile: tile.tile_id))
    fields = {"width_px": 875, "height_px": 4000, "complete": True, "tile_count": 1} | page_fields
    pages = {tile.page_id: Page(tile.page_id, tile.url, tile.title, "", "x", **fields) for tile in tiles}  # type: ignore[arg-type]
    write_jsonl(folder / "pages.jsonl", [pages[page_id] for page_id in sorted(pages)])
    return folder


def run(tiles: Path, out: Path, gates: GateConfig = GATES, most: int = 10) -> tuple[dict[str, object], list[QAPair]]:
    config = Config(out=out, annotator="grounded", max_pairs_per_tile=most, gates=gates, tiles=tiles)
    manifest = run_stage(STAGE, config)
    return manifest["counts"], read_jsonl(out / "pairs.jsonl", QAPair)


def test_pairs_carry_tile_page_and_annotator(town_tile: Callable[..., Tile], tmp_path: Path) -> None:
    tiles = [town_tile(i) for i in range(3)]
    counts, pairs = run(corpus(tmp_path / "tiles", tiles), tmp_path / "queries")
    assert counts["tiles"] == counts["tiles_with_pairs"] == counts["pages_with_pairs"] == 3
    assert counts["pairs"] == len(pairs) >= 3 and counts["annotator"] == "grounded/2"
    assert {pair.tile_id for pair in pairs} == {tile.tile_id for tile in tiles}
    assert [pair.tile_id for pair in pairs] == sorted(pair.tile_id for pair in pairs)
    for pair in pairs:
        assert pair.page_id == pair.tile_id[:16] and pair.annotator == "grounded/2"
        assert pair.query_id == query_id(pair.tile_id, pair.query) and len(pair.query_id) == 16
    assert len({pair.query_id for pair in pairs}) == len(pairs)


def test_every_drop_has_its_name(
    town_tile: Callable[..., Tile], make_tile: Callable[..., Tile], make_block: Callable[..., Block], tmp_path: Path
) -> None:
    image_only = drawn(make_tile("Picture", []), ink=True)
    blocked = drawn(make_tile("Harrow (disambiguation)", [make_block("paragraph", "Harrow may mean a town.")]), True)
    tiles = [
        town_tile(0),
        town_tile(0, row=3),  # starts at 3072 px of 4000
        town_tile(1, text="Two words"),
        town_tile(2, ink=False),
        town_tile(3, text="Moss is green and soft."),
        image_only,
        blocked,
    ]
    counts, _ = run(corpus(tmp_path / "tiles", tiles), tmp_path / "queries")
    dropped = {name: value for name, value in counts.items() if name.startswith(("dropped", "skipped"))}
    assert dropped == {
        "dropped_beyond_first_share": 1,
        "dropped_blocked_page": 1,
        "dropped_few_words": 1,
        "dropped_little_ink": 1,
        "dropped_answer_not_in_tile": 0,
        "dropped_over_max_pairs": 0,
        "dropped_repeated_on_tile": 0,
        "dropped_two_answers_on_tile": 0,
        "skipped_no_fact": 1,
        "skipped_no_text": 1,
    }
    assert counts["tiles"] == len(tiles) and counts["tiles_with_pairs"] == 1


def test_near_duplicates_are_asked_about_once(town_tile: Callable[..., Tile], tmp_path: Path) -> None:
    tiles = [town_tile(i) for i in range(5)]
    shared = decode_image(tiles[0].image)
    tiles[2] = pictured(tiles[2], shared, "JPEG", quality=80)
    tiles[3] = dataclasses.replace(pictured(tiles[3], shared), text="Two words")  # stopped by another gate
    folder = corpus(tmp_path / "tiles", tiles)
    keep_all, _ = run(folder, tmp_path / "all")
    once, pairs = run(folder, tmp_path / "once", dataclasses.replace(GATES, near_duplicate_bits=12))
    assert "dropped_near_duplicate" not in keep_all and keep_all["tiles_with_pairs"] == 4
    assert (once["dropped_near_duplicate"], once["dropped_few_words"]) == (1, 1)
    kept = min(tiles[0].tile_id, tiles[2].tile_id)
    assert {pair.tile_id for pair in pairs} == {kept, tiles[1].tile_id, tiles[4].tile_id}


def test_page_gates(town_tile: Callable[..., Tile], tmp_path: Path) -> None:
    low = corpus(tmp_path / "low", [town_tile(0)], height_px=2000)
    with pytest.raises(InputError, match=r"none of 1 tiles gave a pair \(dropped_page_height: 1\).*relax `gates`"):
        run(low, tmp_path / "a")
    cut = corpus(tmp_path / "cut", [town_tile(0)], complete=False)
    with pytest.raises(InputError, match=r"\(dropped_incomplete_page: 1\)"):
        run(cut, tmp_path / "b")
    assert run(cut, tmp_path / "c", dataclasses.replace(GATES, require_complete=False))[0]["pairs"] != 0


FACTS = (
    "The moss hall of Harrow Town was built of fern stone in 1801."
    " Harrow Town has been a member of the Coastal League since 1877."
)


def test_most_pairs_per_tile(town_tile: Callable[..., Tile], tmp_path: Path) -> None:
    tiles = corpus(tmp_path / "tiles", [town_tile(i, text=FACTS) for i in range(2)])
    whole, _ = run(tiles, tmp_path / "all", most=100)
    counts, pairs = run(tiles, tmp_path / "queries", most=1)
    assert counts["pairs"] == len(pairs) == 2
    assert whole["dropped_over_max_pairs"] == 0 and counts["dropped_over_max_pairs"] != 0
    assert counts["candidates"] == whole["candidates"] == whole["pairs"]
    assert whole["pairs"] == len(pairs) + int(str(counts["dropped_over_max_pairs"]))


def test_every_candidate_is_a_pair_or_counted(
    make_tile: Callable[..., Tile], make_block: Callable[..., Block], tmp_path: Path
) -> None:
    block, unseen = make_block("paragraph", FACTS), make_block("paragraph", FACTS.replace("18", "19"))
    tile = dataclasses.replace(make_tile("Harrow Town", [block, block, unseen]), text=FACTS)
    counts, pairs = run(corpus(tmp_path / "tiles", [drawn(tile, ink=True)]), tmp_path / "queries", most=1)
    reasons = ("answer_not_in_tile", "over_max_pairs", "repeated_on_tile")
    absent, over, repeated = (int(str(counts[f"dropped_{reason}"])) for reason in reasons)
    assert len(pairs) == 1 and over >= 1
    assert absent == repeated == len(pairs) + over  # each of the three blocks gives as many
    assert counts["candidates"] == len(pairs) + absent + over + repeated


def test_a_question_with_two_answers_on_its_tile_is_dropped(
    make_tile: Callable[..., Tile], make_block: Callable[..., Block], tmp_path: Path
) -> None:
    rows = [
        make_block("infobox_row", f"{label} {value}", cells=(label, value), labels=("", ""), caption="Harrow Town")
        for label, value in (("Founder", "Ada Fern"), ("Twin town", "Mossley"), ("Twin town", "Fernhill"))
    ]
    tiles = corpus(tmp_path / "tiles", [drawn(make_tile("Harrow Town", rows), ink=True)])
    counts, pairs = run(tiles, tmp_path / "queries")
    assert [pair.answer for pair in pairs] == ["Ada Fern"]
    assert counts["dropped_two_answers_on_tile"] == 2
    assert counts["candidates"] == 3


def test_other_tiles_do_not_change_a_tiles_pairs(town_tile: Callable[..., Tile], tmp_path: Path) -> None:
    _, few = run(corpus(tmp_path / "few", [town_tile(1)]), tmp_path / "a")
    _, many = run(corpus(tmp_path / "many", [town_tile(i) for i in range(4)]), tmp_path / "b")
    assert few == [pair for pair in many if pair.tile_id == few[0].tile_id]


def test_bad_input_is_named(town_tile: Callable[..., Tile], tmp_path: Path) -> None:
    empty = corpus(tmp_path / "empty", [])
    with pytest.raises(InputError, match="tile store is empty"):
        run(empty, tmp_path / "a")
    orphan = corpus(tmp_path / "orphan", [town_tile(0)])
    write_jsonl(orphan / "pages.jsonl", [])
    with pytest.raises(InputError, match=r"isn't in pages\.jsonl"):
        run(orphan, tmp_path / "b")
    (orphan / "pages.jsonl").unlink()
    with pytest.raises(InputError, match=r"pages\.jsonl is missing"):
        run(orphan, tmp_path / "c")
    with pytest.raises(InputError, match="is missing"):
        run(tmp_path / "nowhere", tmp_path / "d")


def stage_process(folder: Path, seed: str) -> Path:
    """Run the stage on ``folder``/tiles to its end; return its output folder."""
    command = [sys.executable, "-m", "tilewright.data_gen.make_queries", str(folder / "make_queries.yaml")]
    subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, check=True, capture_output=True, timeout=120)
    return folder / "queries"


@pytest.mark.parametrize("lines", [5, 330], ids=["gates", "questions"])
def test_kill_9_and_resume_gives_the_bytes_of_an_uninterrupted_run(
    lines: int,
    town_tile: Callable[..., Tile],
    kill_once_journalled: Callable[[list[str], Path, int], None],
    tmp_path: Path,
) -> None:
    tiles = [town_tile(i) for i in range(300)]
    for name in ("killed", "whole"):
        corpus(tmp_path / name / "tiles", tiles)
        (tmp_path / name / "make_queries.yaml").write_text(YAML)
    arguments = ["tilewright.data_gen.make_queries", str(tmp_path / "killed" / "make_queries.yaml")]
    kill_once_journalled(arguments, tmp_path / "killed" / "queries", lines)
    journal = tmp_path / "killed" / "queries.partial" / ".journal.jsonl"
    done = journal.read_bytes().count(b"\n")
    assert lines <= done < 2 * len(tiles)
    assert (done > len(tiles)) == (lines > len(tiles))
    killed, whole = stage_process(tmp_path / "killed", "2"), stage_process(tmp_path / "whole", "3")
    assert (killed / "pairs.jsonl").read_bytes() == (whole / "pairs.jsonl").read_bytes()
    manifests = [json.loads((folder / "manifest.json").read_text()) for folder in (killed, whole)]
    for manifest in manifests:
        del manifest["provenance"]
    assert manifests[0] == manifests[1]
    assert manifests[0]["counts"]["tiles"] == manifests[0]["counts"]["tiles_with_pairs"] == len(tiles)
