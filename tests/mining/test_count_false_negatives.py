"""False negatives counted on the planted corpus, where each fact stands on three further tiles."""

import dataclasses
import json
from pathlib import Path

import pytest
from tests.mining.planted import FALSE_NEGATIVES, Planted, pair_of

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen import find_positives
from tilewright.data_gen.find_positives import Positives
from tilewright.data_gen.make_digest_pages import Copy
from tilewright.data_gen.records import TrainingExample, read_jsonl, write_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.mining import mine_negatives
from tilewright.mining.count_false_negatives import STAGE, Config, false_negatives, show
from tilewright.mining.mining_report import share_interval


@pytest.fixture
def positives(planted: Planted, tmp_path: Path) -> Path:
    """positives.jsonl; truth knows of one of each fact's three further tiles, ``again``, alone."""
    (tmp_path / "splits").mkdir()
    for split in ("validation", "test"):
        write_jsonl(tmp_path / "splits" / f"{split}.jsonl", [])
    write_jsonl(tmp_path / "splits" / "train.jsonl", planted.pairs)
    stated = [
        Copy(
            planted.tile(fact, "again")[:16], f"the capital of {pair.subject} has been {pair.answer}", (pair.query_id,)
        )
        for fact, pair in enumerate(planted.pairs)
    ]
    write_jsonl(tmp_path / "copies.jsonl", stated)
    config = find_positives.Config(
        tmp_path / "positives", tmp_path / "splits", planted.root / "tiles", tmp_path / "copies.jsonl"
    )
    run_stage(find_positives.STAGE, config)
    return config.out / "positives.jsonl"


def test_every_further_answer_is_a_known_positive(planted: Planted, positives: Path) -> None:
    found = read_jsonl(positives, Positives)
    assert [one.query_id for one in found] == [pair.query_id for pair in planted.pairs]
    for fact, one in enumerate(found):
        assert set(one.judged) == {planted.tile(fact, kind) for kind in FALSE_NEGATIVES}
        assert one.stated == (planted.tile(fact, "again"),) and one.tile_ids == frozenset(one.judged)


def test_a_copy_that_a_tile_s_edge_cuts_is_on_none(planted: Planted) -> None:
    tiles = {tile.tile_id: tile for tile in TileStore.open(planted.root / "tiles").iterate_light()}
    one, first = planted.pairs[0], tiles[planted.tile(0, "again")]
    words = first.text.split()
    whole, cut = (Copy(first.page_id, " ".join(part), (one.query_id,)) for part in (words, [*words, "goes on"]))
    elsewhere = Copy("f" * 16, "no page of these tiles", (one.query_id,))
    assert find_positives.stated_tiles([whole, cut, elsewhere], tiles) == ({one.query_id: {first.tile_id}}, 2)


def test_naive_negatives_are_all_false_and_judged_ones_none(planted: Planted, positives: Path, tmp_path: Path) -> None:
    naive = mine_negatives.Config(
        tmp_path / "naive", "naive", top_k=20, negatives=2, short="keep", same_page="allow", **planted.inputs
    )
    judged = dataclasses.replace(naive, out=tmp_path / "judged", mode="judged")
    for config in (naive, judged):
        run_stage(mine_negatives.STAGE, config)
    config = Config(tmp_path / "false", 1, (naive.out, judged.out), positives)
    report = run_stage(STAGE, config)["counts"]
    facts = len(planted.pairs)
    assert report == json.loads((config.out / "report.json").read_text())
    every, first = report["naive"]["all"], report["naive"]["used"]
    assert (every["negatives"], every["examples_with_false"], first["negatives"]) == (2 * facts, facts, facts)
    assert (every["either"]["share"], every["judged"]["share"], every["stated"]["share"]) == (1.0, 1.0, 0.5)
    assert first["stated"]["share"] == 1.0, "the hardest of all is `again`"
    assert report["judged"]["all"]["either"]["false"] == 0 == report["judged"]["used"]["examples_with_false"]
    show(config.out)


def test_shares_and_their_intervals_by_hand() -> None:
    pages = ("0" * 16, "1" * 16)
    examples = [
        TrainingExample(f"q{i}", "?", f"{pages[i % 2]}-0000-00", (f"{'a' * 16}-{i:04d}-00", f"{'b' * 16}-{i:04d}-00"))
        for i in range(6)
    ]
    known = {
        one.query_id: Positives(one.query_id, one.negative_tile_ids[:1] if i < 2 else (), one.negative_tile_ids[1:])
        for i, one in enumerate(examples)
    }
    every, first = false_negatives(examples, known, None), false_negatives(examples, known, 1)
    assert (every["stated"]["false"], every["judged"]["false"], every["either"]["false"]) == (2, 6, 8)
    assert (first["stated"]["share"], first["judged"]["share"], first["negatives"]) == (2 / 6, 0.0, 6)
    assert (first["stated"]["low"], first["stated"]["high"]) == share_interval([(1, 3), (1, 3)], 0.95)
    nothing = false_negatives([dataclasses.replace(examples[0], negative_tile_ids=())], known, None)
    assert nothing == {"examples": 1, "negatives": 0, "examples_with_false": 0}


def test_pairs_of_another_run_and_equal_names_are_refused(positives: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    example = TrainingExample("stranger", "?", pair_of(0).tile_id, ())
    write_jsonl(tmp_path / "a" / "examples.jsonl", [example])
    with pytest.raises(InputError, match="stranger: wanted pairs of"):
        run_stage(STAGE, Config(tmp_path / "out", 1, (tmp_path / "a",), positives))
    with pytest.raises(ValueError, match="folders of different names"):
        Config(tmp_path / "out", 1, (tmp_path / "a", tmp_path / "b" / "a"), positives)


def test_folders_are_shown_by_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    used = {"examples": 1, "negatives": 0, "examples_with_false": 0}
    (tmp_path / "report.json").write_text(json.dumps({"judged[red]": {"all": used, "used": used}}))
    show(tmp_path)
    assert "judged[red]" in capsys.readouterr().out
