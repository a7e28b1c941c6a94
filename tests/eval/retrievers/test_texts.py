"""Tiles found by their DOM text: embedded by a checkpoint as its documents are; a tile without words is never found."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import QAPair, read_jsonl
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.eval.evaluate import STAGE
from tilewright.eval.retrievers.texts import TileDomTexts
from tilewright.eval.trec import read_run
from tilewright.train.encoder import evaluating, load_encoder


def test_tiles_are_ranked_by_the_vectors_of_their_texts(world: Any, tmp_path: Path) -> None:
    tiles = [
        dataclasses.replace(tile, text=" \n" if place == 5 else tile.text)
        for place, tile in enumerate(TileStore.open(world.paths["tiles"]))
    ]
    write_store(tmp_path / "tiles", tiles)
    config = world.config(
        tmp_path / "out", tiles=tmp_path / "tiles", rows=("texts",),
        retrievers={"texts": TileDomTexts("tile_texts", "base")},
        compare=(), readers={}, reader_checkpoints={},
    )  # fmt: skip
    run_stage(STAGE, config)
    encoder = load_encoder(world.paths["checkpoints"]["base"].folder)
    told = [tile for tile in tiles if tile.text.strip()]
    with evaluating(encoder.model):
        vectors = encoder.forward(encoder.document_batch([tile.text for tile in told]))
    pairs = read_jsonl(world.paths["pairs"], QAPair)
    scores = encoder.encode_queries([pair.query for pair in pairs]) @ vectors.T
    run = {ranking.query_id: dict(ranking.hits) for ranking in read_run(config.out / "runs" / "texts.trec")}
    for pair, row in zip(pairs, scores.tolist(), strict=True):
        wanted = {tile.tile_id: score for tile, score in zip(told, row, strict=True)}
        assert run[pair.query_id] == pytest.approx(wanted, abs=2e-5)
