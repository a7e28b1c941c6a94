"""A local reader from base and adapter answers as the merged checkpoint does, and in batches as alone."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.eval.workshops import workshop_of

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import EvalRecord, QAPair, ReaderExample, read_jsonl, write_jsonl
from tilewright.eval.cache import Cache
from tilewright.eval.checkpoints import Checkpoint, folders_of
from tilewright.eval.evaluate_reader import STAGE, Config
from tilewright.eval.parts import Asked, Item, Prediction, Question
from tilewright.eval.readers.local import LocalReader, local_reader
from tilewright.eval.retrievers.tiles import CheckpointTiles
from tilewright.eval.workshop import OcrConfig
from tilewright.train.adapters import LoraGroup, add_adapters, trainable
from tilewright.train.reader import load_reader, save_reader, save_reader_adapter


@pytest.fixture(scope="module")
def checkpoints(world: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checkpoint]:
    """A base, the base with an adapter that changes answers, and both merged."""
    root = tmp_path_factory.mktemp("adapter")
    base = world.paths["reader_checkpoints"]["base"].folder
    reader = load_reader(base)
    reader.model = add_adapters(reader.model, {"llm_attn": LoraGroup(4, 8.0)})
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in trainable(reader.model).values():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    save_reader_adapter(reader, root / "adapter", base)
    save_reader(load_reader(base, adapter=root / "adapter"), root / "merged", base)
    return {
        "base": Checkpoint("base", base),
        "adapted": Checkpoint("base and adapter", base, adapter=root / "adapter"),
        "merged": Checkpoint("merged", root / "merged"),
    }


def test_base_and_adapter_answer_as_the_merged_checkpoint_and_in_batches_as_alone(
    world: Any, checkpoints: dict[str, Checkpoint], tmp_path: Path
) -> None:
    pairs = read_jsonl(world.paths["pairs"], QAPair)[:3]
    rows = [ReaderExample(pair.query_id, pair.query, pair.answer, (pair.tile_id,), 0, 1.0) for pair in pairs]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    readers = {name: LocalReader("local", name, max_new_tokens=4, batch_size=2) for name in checkpoints}
    readers["alone"] = LocalReader("local", "adapted", max_new_tokens=4)
    config = Config(
        out=tmp_path / "out",
        examples=tmp_path / "rows.jsonl",
        tiles=world.paths["tiles"],
        readers=readers,
        reader_checkpoints=checkpoints,
        compressions=(9.0,),
        ks=(1,),
        compare=(),
        count=None,
        ocr=OcrConfig("eng", 1.0, 60.0, 1),
        max_error_share=0.0,
        resamples=20,
        confidence=0.95,
        threads=1,
        seed=0,
    )
    run_stage(STAGE, config)
    said = {
        name: [
            (row.prediction, row.input_tokens, row.visual_tokens, row.output_tokens)
            for row in read_jsonl(config.out / f"predictions/examples.c9.{name}.k1.jsonl", EvalRecord)
        ]
        for name in readers
    }
    assert said["alone"] == said["adapted"] == said["merged"]
    assert said["adapted"] != said["base"] and len({answer[0] for answer in said["adapted"]}) > 1


def test_a_text_costs_what_it_adds_to_the_prompt(world: Any, checkpoints: dict[str, Checkpoint]) -> None:
    """With what marks it as a text: one that costs what a tile costs makes the prompt no longer in the tile's place."""
    cache = Cache(world.root / "local_cache")
    workshop = workshop_of(world.paths["tiles"], world.root, readers=checkpoints, cache=cache)
    reader = local_reader(LocalReader("local", "base", max_new_tokens=1), workshop)
    tiles = [workshop.tile_item(name) for name in workshop.store.tile_ids[:2]]
    budget = reader.cost(tiles[1])
    texts = [
        Item("b", "p", "tessera", "Founded | 1701\n" * times + "a b" * rest)
        for times in range(90)
        for rest in (0, 1, 2)
    ]
    text = max((item for item in texts if reader.cost(item) <= budget), key=reader.cost)
    assert reader.cost(text) > budget - 10
    lengths = []
    for last in (tiles[1], text):
        ((_, said),) = reader.answer([Asked(Question("q", "When?", ("1701",)), (tiles[0], last))], world.root)
        assert isinstance(said, Prediction)
        lengths.append(said.input_tokens)
        assert said.retrieved_text_tokens == (0 if last.picture else reader.cost(text))
    assert lengths[1] <= lengths[0]


def test_an_adapter_is_an_input_and_of_readers_alone(checkpoints: dict[str, Checkpoint], world: Any) -> None:
    assert checkpoints["adapted"].adapter in folders_of(checkpoints)
    embedder = dataclasses.replace(world.paths["checkpoints"]["base"], adapter=checkpoints["adapted"].adapter)
    with pytest.raises(InputError, match="it is of readers"):
        CheckpointTiles("base", embedder, world)
