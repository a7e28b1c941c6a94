"""Mining of a planted corpus: each fact stands on three pages and a near-duplicate, and the ranking is known."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from tests.mining.planted import FALSE_NEGATIVES, KINDS, Planted, renamed, with_pairs

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import TrainingExample, read_jsonl
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.data_gen.tiles import page_of
from tilewright.mining.index import TileIndex
from tilewright.mining.mine_negatives import STAGE, Config
from tilewright.mining.mined import Looked, PairOutcome
from tilewright.mining.mining_config import Margin

RANKED = sorted((kind for kind in KINDS if kind != "gold"), key=lambda kind: -KINDS[kind][0])
FACTS = range(6)


@pytest.fixture
def config(planted: Planted, tmp_path: Path) -> Config:
    return Config(
        out=tmp_path / "mined", mode="judged", top_k=20, negatives=2, short="keep", same_page="allow", **planted.inputs
    )


def mined(config: Config, **changes: Any) -> tuple[dict[str, Any], list[TrainingExample]]:
    """(counts, examples) of a run with changes, in a folder of its own."""
    name = f"{config.out.name}_{len(list(config.out.parent.iterdir()))}"
    changed = dataclasses.replace(config, **({"out": config.out.with_name(name)} | changes))
    counts = run_stage(STAGE, changed)["counts"]
    return counts, read_jsonl(changed.out / "examples.jsonl", TrainingExample)


def tiles(fact: int, *kinds: str) -> tuple[str, ...]:
    return tuple(Planted.tile(fact, kind) for kind in kinds)


def test_every_planted_false_negative_is_a_known_positive_and_none_a_negative(config: Config) -> None:
    counts, examples = mined(config, out=config.out)
    for fact, example in enumerate(examples):
        assert example.known_positive_tile_ids == tiles(fact, *FALSE_NEGATIVES)
        assert example.negative_tile_ids == tiles(fact, "wrong", "about")
    assert counts["false_negatives_found"] == counts["known_positives"] == 18 and counts["negatives"] == 12
    assert counts["verdicts"] == {"CORRECT": 18, "WRONG": 6, "CANNOT_ANSWER": 6}
    looked = [one for one in read_jsonl(config.out / "verdicts.jsonl", Looked) if one.position == 0]
    assert [one.tile_id for one in looked] == list(tiles(0, "again", "near", "wrong", "third", "about"))
    assert [one.rank for one in looked] == [1, 2, 3, 4, 5] and {one.by for one in looked} == {"grounded"}
    scores = [one.score / looked[0].score for one in looked]
    wanted = [KINDS[kind][0] / KINDS["again"][0] for kind in ("again", "near", "wrong", "third", "about")]
    assert scores == pytest.approx(wanted, abs=1e-4)
    outcome = read_jsonl(config.out / "outcomes.jsonl", PairOutcome)[0]
    assert outcome.outcome == "kept" and outcome.positive_rank == 3
    assert outcome.positive_score == pytest.approx(looked[0].score * KINDS["gold"][0] / KINDS["again"][0], rel=1e-4)


def test_the_report_counts_what_naive_mode_would_have_got_wrong(config: Config) -> None:
    """Naive mode takes the two nearest, which both answer: its false-negative rate is 1, as naive mining shows."""
    counts, examples = mined(config, mode="naive")
    false = {tile_id for fact in FACTS for tile_id in tiles(fact, *FALSE_NEGATIVES)}
    assert all(set(example.negative_tile_ids) <= false for example in examples) and counts["not_judged"] == 12
    run_stage(STAGE, config)
    report = json.loads((config.out / "report.json").read_text())
    naive = report["false_negatives_among_naive"]
    assert (naive["judged"], naive["false_negatives"], naive["pages"], naive["share"]) == (12, 12, 6, 1.0)
    assert 0.5 < naive["low"] < naive["high"] == 1.0
    by_rank = report["verdicts_by_rank"]
    assert [by_rank[str(rank)]["correct_share"] for rank in (1, 2, 3, 4, 5)] == [1, 1, 0, 1, 0]
    assert report["judged"] == 30 and report["judged_per_example"] == 5.0
    wide = dataclasses.replace(config, out=config.out.with_name("wide"), negatives=4)
    run_stage(STAGE, wide)
    naive = json.loads((wide.out / "report.json").read_text())["false_negatives_among_naive"]
    _, examples = mined(config, mode="naive", negatives=4)
    among = sum(tile_id in false for example in examples for tile_id in example.negative_tile_ids)
    assert (naive["judged"], naive["false_negatives"]) == (24, among) == (24, 18)


@pytest.mark.parametrize(("margin", "limit"), [(Margin(absolute=0.0), 0.85), (Margin(relative=0.95), 0.95 * 0.85)])
def test_margin_leaves_out_what_scores_too_close_to_the_positive(config: Config, margin: Margin, limit: float) -> None:
    below = [kind for kind in RANKED if KINDS[kind][0] <= limit]
    counts, examples = mined(config, mode="margin", margin=margin)
    assert [example.negative_tile_ids for example in examples] == [tiles(fact, *below[:2]) for fact in FACTS]
    above = sum(KINDS[kind][0] > limit for kind in RANKED[: RANKED.index(below[1]) + 1])
    assert counts["skipped_above_margin"] == 6 * above and counts["positive_absent"] == 0


@pytest.mark.parametrize("margin", [Margin(absolute=0.02), Margin(relative=0.5)])
def test_an_absent_positive_is_scored_by_its_own_vector(
    config: Config, planted: Planted, tmp_path: Path, margin: Margin
) -> None:
    """The limit comes from the tile's vector by the checkpoint, whatever vector the index holds of it."""
    index, encoder = TileIndex.load(planted.root / "index"), planted.encoder()
    scores = encoder.encode_queries([pair.query for pair in planted.pairs])
    store = TileStore.open(planted.root / "tiles")
    counts, examples = mined(config, mode="margin", margin=margin, top_k=2)
    assert counts["positive_absent"] == 6 and counts["positive_rank"] == {"not in top 2": 6}
    found = 0
    for pair, query, example in zip(planted.pairs, scores, examples, strict=True):
        own = float((query * encoder.encode_tiles([store.image(pair.tile_id)])[0]).sum())
        ranked = [hit for hit in index.search(query[None], 3)[0] if hit[0] != pair.tile_id][:2]
        assert list(example.negative_tile_ids) == [tile for tile, score in ranked if score <= margin.limit(own)]
        found += len(example.negative_tile_ids)
    assert counts["negatives"] == found and counts["skipped_above_margin"] == 12 - found
    counts, examples = mined(config, mode="margin", margin=margin, top_k=2, absent_positive="drop")
    assert counts["dropped_positive_absent"] == 6 and not examples


@pytest.mark.parametrize("mode", ["naive", "judged"])
def test_an_absent_positive_is_counted_in_every_mode(config: Config, mode: str) -> None:
    counts, examples = mined(config, mode=mode, top_k=2)
    assert counts["positive_absent"] == 6 and len(examples) == 6
    assert all(example.negative_tile_ids == () for example in examples) == (mode == "judged")
    counts, examples = mined(config, mode=mode, top_k=2, absent_positive="drop")
    assert counts["dropped_positive_absent"] == 6 and counts["examples"] == 0 == len(examples)
    assert mined(config, mode="in_batch", top_k=2, absent_positive="drop")[0]["examples"] == 6  # nothing was searched


def test_the_rank_window_gives_the_negatives(config: Config) -> None:
    _, examples = mined(config, mode="naive", first_rank=3, top_k=4)
    assert [example.negative_tile_ids for example in examples] == [tiles(fact, *RANKED[2:4]) for fact in FACTS]
    counts, examples = mined(config, first_rank=3, top_k=4)
    assert [example.negative_tile_ids for example in examples] == [tiles(fact, "wrong") for fact in FACTS]
    assert [example.known_positive_tile_ids for example in examples] == [tiles(fact, "third") for fact in FACTS]
    assert counts["kept_with_too_few_negatives"] == 6 and sum(counts["verdicts"].values()) == 12


def test_a_page_gives_no_more_negatives_than_its_share(config: Config) -> None:
    counts, examples = mined(config, per_page=1)
    for fact, example in enumerate(examples):
        assert example.negative_tile_ids == tiles(fact, "wrong", "far")  # "about" is on the page of "wrong"
        assert example.known_positive_tile_ids == tiles(fact, *FALSE_NEGATIVES)
    assert counts["skipped_page_full"] == 6 and sum(counts["verdicts"].values()) == 6 * 5


def test_the_positive_s_page_is_left_out_or_comes_first(config: Config) -> None:
    counts, examples = mined(config, mode="naive", same_page="forbid")
    assert [example.negative_tile_ids for example in examples] == [tiles(fact, "again", "wrong") for fact in FACTS]
    assert counts["skipped_same_page"] == 6
    counts, examples = mined(config, mode="naive", same_page="prefer")
    assert [example.negative_tile_ids for example in examples] == [tiles(fact, "near", "again") for fact in FACTS]
    looked = mined(config, same_page="prefer", negatives=1)[1]
    assert [example.known_positive_tile_ids for example in looked] == [tiles(fact, "near", "again") for fact in FACTS]


def test_known_positives_of_an_earlier_round_stay_without_being_judged(config: Config) -> None:
    run_stage(STAGE, config)
    previous = config.out / "examples.jsonl"
    counts, examples = mined(config, round=2, previous=previous, top_k=6)
    assert counts["known_from_earlier_round"] == 18 and counts["verdicts"]["CORRECT"] == 0 and counts["round"] == 2
    assert examples == read_jsonl(previous, TrainingExample)
    _, examples = mined(config, mode="in_batch", round=2, previous=previous)
    assert [example.known_positive_tile_ids for example in examples] == [
        tiles(fact, *FALSE_NEGATIVES) for fact in FACTS
    ]
    with pytest.raises(ValueError, match="round 2"):
        dataclasses.replace(config, previous=previous)


def index_of(planted: Planted, folder: Path, tile_ids: list[str]) -> dict[str, Any]:
    """An index and a store of some tiles only, with their own vectors."""
    store, index = TileStore.open(planted.root / "tiles"), TileIndex.load(planted.root / "index")
    write_store(folder / "tiles", [store.get(tile_id) for tile_id in sorted(tile_ids)])
    encoder = planted.encoder()
    vectors = encoder.encode_tiles([store.image(tile_id) for tile_id in tile_ids])
    TileIndex.build(vectors, tile_ids, encoder_hash=index.encoder_hash).save(folder / "index")
    return {"index": folder / "index", "tiles": folder / "tiles"}


def test_an_index_of_one_tile_has_no_candidate(config: Config, planted: Planted, tmp_path: Path) -> None:
    inputs = with_pairs(planted, tmp_path, [planted.pairs[0]]) | index_of(planted, tmp_path, list(tiles(0, "gold")))
    for mode in ("judged", "naive"):
        counts, examples = mined(config, mode=mode, **inputs)
        assert counts["queries_without_candidate"] == counts["kept_with_too_few_negatives"] == 1
        assert examples[0].negative_tile_ids == examples[0].known_positive_tile_ids == ()
        assert counts["positive_rank"] == {"01": 1}
        counts, examples = mined(config, mode=mode, short="drop", **inputs)
        assert counts["dropped_too_few_negatives"] == 1 and not examples


def test_an_index_of_k_tiles_gives_them_all(config: Config, planted: Planted, tmp_path: Path) -> None:
    kinds = tiles(0, *KINDS)
    inputs = with_pairs(planted, tmp_path, [planted.pairs[0]]) | index_of(planted, tmp_path, list(kinds))
    for top_k in (6, 20):  # exactly as many candidates as there are, and more than there are
        counts, examples = mined(config, mode="naive", top_k=top_k, negatives=6, **inputs)
        assert {*examples[0].negative_tile_ids, planted.pairs[0].tile_id} == set(kinds) and counts["negatives"] == 6
    with pytest.raises(InputError, match="at least one tile"):
        index_of(planted, tmp_path / "none", [])


def test_a_positive_that_the_index_lacks_is_named(config: Config, planted: Planted, tmp_path: Path) -> None:
    kept = [tile for tile in TileIndex.load(planted.root / "index").tile_ids if tile != planted.tile(4, "gold")]
    broken = dataclasses.replace(config, **index_of(planted, tmp_path, kept))
    with pytest.raises(InputError, match=f"q-elbonia: tile {planted.tile(4, 'gold')} is not in the index"):
        run_stage(STAGE, broken)


def test_pairs_of_one_query_are_each_mined(config: Config, planted: Planted, tmp_path: Path) -> None:
    twice = with_pairs(planted, tmp_path, [planted.pairs[0], renamed(planted.pairs[0], "again")])
    _, examples = mined(config, **twice)
    assert [example.query_id for example in examples] == ["q-aland", "again"]
    assert examples[0].negative_tile_ids == examples[1].negative_tile_ids
    assert page_of(examples[0].positive_tile_id) == planted.pairs[0].page_id
