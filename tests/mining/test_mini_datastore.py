"""The mini-datastore: gold pages whole, the nearest of each question, nothing else; drawn by seed, resumable."""

import dataclasses
from pathlib import Path

import pytest
from tests.mining.planted import KINDS, Planted, with_pairs

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.requests import inputs_of
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import QAPair, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of
from tilewright.mining.index import TileIndex
from tilewright.mining.mini_datastore import STAGE, Config, mini_datastore

BY_SCORE = sorted(KINDS, key=lambda kind: -KINDS[kind][0])


@pytest.fixture
def config(planted: Planted, tmp_path: Path) -> Config:
    inputs = {name: path for name, path in planted.inputs.items() if name != "pages"}
    return Config(tmp_path / "mini", questions=3, top_n=2, seed=1, block=2, **inputs)


def questions(config: Config) -> list[QAPair]:
    return read_jsonl(config.out / "pairs.jsonl", QAPair)


def test_it_holds_the_gold_pages_and_the_nearest_tiles(config: Config, planted: Planted) -> None:
    for top_n in range(5):
        one = dataclasses.replace(config, out=config.out.with_name(f"top{top_n}"), top_n=top_n)
        counts = run_stage(STAGE, one)["counts"]
        asked, store = questions(one), TileStore.open(one.out)
        facts = [planted.pairs.index(pair) for pair in asked]
        gold = {planted.tile(fact, kind) for fact in facts for kind in ("gold", "near")}
        nearest = {planted.tile(fact, kind) for fact in facts for kind in BY_SCORE[:top_n]}
        assert set(store.tile_ids) == gold | nearest and len(asked) == counts["questions"] == 3
        assert counts == {
            "questions": 3, "questions_given": 6, "gold_pages": 3, "tiles": len(gold | nearest), "tiles_given": 42,
            "gold_tiles": 6, "nearest_tiles": len(nearest), "nearest_tiles_of_other_pages": len(nearest - gold),
        }  # fmt: skip
        whole = TileStore.open(planted.root / "tiles")
        assert all(store.get(tile_id) == whole.get(tile_id) for tile_id in store.tile_ids)
        assert {page_of(pair.tile_id) for pair in asked} <= {page_of(tile_id) for tile_id in store.tile_ids}


def test_questions_are_drawn_by_seed_whatever_their_order(config: Config, planted: Planted, tmp_path: Path) -> None:
    run_stage(STAGE, config)
    turned = with_pairs(planted, tmp_path, list(planted.pairs[::-1]))["pairs"]
    other = dataclasses.replace(config, out=tmp_path / "turned", pairs=turned)
    run_stage(STAGE, other)
    assert questions(other) == questions(config)[::-1]
    drawn = set()
    for seed in range(4):
        one = dataclasses.replace(config, out=tmp_path / f"seed{seed}", seed=seed)
        run_stage(STAGE, one)
        drawn.add(tuple(pair.query_id for pair in questions(one)))
    assert len(drawn) > 1
    everything = dataclasses.replace(config, out=tmp_path / "all", questions=99)
    assert run_stage(STAGE, everything)["counts"]["questions"] == 6


def test_resumed_from_any_journal_the_bytes_are_the_same(config: Config, tmp_path: Path) -> None:
    """A journal cut after n questions, as a kill leaves it, leads to the same files, for every n."""
    config = dataclasses.replace(config, questions=6)
    whole, inputs = run_stage(STAGE, config), inputs_of(config)
    (tmp_path / "first").mkdir()
    mini_datastore(config, inputs, tmp_path / "first")
    lines = (tmp_path / "first/.journal.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 6
    for kept in (0, 1, 5, 6):
        folder = tmp_path / f"cut{kept}"
        folder.mkdir()
        (folder / ".journal.jsonl").write_bytes(b"".join(lines[:kept]) + b'{"key": "q')
        assert mini_datastore(config, inputs, folder) == whole["counts"]
        assert output_digests(folder) == whole["outputs"]


def test_an_index_of_another_encoder_or_without_a_question_s_tile_is_refused(
    config: Config, planted: Planted, tmp_path: Path
) -> None:
    index = TileIndex.load(planted.root / "index")
    vectors = planted.encoder().encode_tiles([TileStore.open(config.tiles).image(t) for t in index.tile_ids])
    TileIndex.build(vectors, index.tile_ids, encoder_hash="0" * 64).save(tmp_path / "foreign")
    with pytest.raises(InputError, match="encoder"):
        run_stage(STAGE, dataclasses.replace(config, index=tmp_path / "foreign"))
    fewer = [n for n, tile_id in enumerate(index.tile_ids) if tile_id != planted.tile(2, "gold")]
    ids = [index.tile_ids[n] for n in fewer]
    TileIndex.build(vectors[fewer], ids, encoder_hash=index.encoder_hash).save(tmp_path / "fewer")
    with pytest.raises(InputError, match="q-corvia"):
        run_stage(STAGE, dataclasses.replace(config, index=tmp_path / "fewer", questions=6, out=tmp_path / "x"))


@pytest.mark.parametrize("change", [{"questions": 0}, {"top_n": -1}, {"block": 0}])
def test_bad_settings_are_refused(config: Config, change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="wanted"):
        dataclasses.replace(config, **change)  # type: ignore[arg-type]
