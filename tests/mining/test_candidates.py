"""Mining encodes its queries on the device that is asked for."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import QAPair, TrainingExample, read_jsonl, write_jsonl
from tilewright.mining import candidates, embed_tiles, make_reader_data, mine_negatives


@pytest.mark.parametrize("stage", ["mine_negatives", "make_reader_data", "embed_tiles"])
def test_the_encoder_is_put_on_the_device_asked_for(
    stage: str, corpus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[torch.device] = []

    def load(folder: Path, *, device: torch.device, **options: Any) -> Any:
        asked.append(device)
        raise ZeroDivisionError

    monkeypatch.setattr(candidates, "load_encoder", load)
    monkeypatch.setattr(embed_tiles, "load_encoder", load)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.delenv("ACCELERATE_USE_CPU", raising=False)
    stages = {"mine_negatives": mine_negatives, "make_reader_data": make_reader_data, "embed_tiles": embed_tiles}
    for device, wanted in (("auto", "cuda:2"), ("cpu", "cpu")):
        config = dataclasses.replace(configs(corpus, tmp_path)[stage], out=tmp_path / device, device=device)
        with pytest.raises(ZeroDivisionError):
            run_stage(stages[stage].STAGE, config)
        assert asked[-1] == torch.device(wanted)


def configs(corpus: Any, folder: Path) -> dict[str, Any]:
    out, pairs, pages = folder / "out", corpus.root / "train.jsonl", corpus.root / "pages.json"
    examples = [TrainingExample(pair.query_id, pair.query, pair.tile_id, ()) for pair in read_jsonl(pairs, QAPair)]
    write_jsonl(folder / "examples.jsonl", examples)
    reader = {"validation": corpus.root / "validation.jsonl", "negatives": folder / "examples.jsonl"}
    return {
        "mine_negatives": mine_negatives.Config(
            out, "judged", 6, 2, "keep", "allow", pairs=pairs, pages=pages, **corpus.inputs
        ),
        "make_reader_data": make_reader_data.Config(
            out, (1.0,), 0.0, (1.0,), None, None, 7, pairs=pairs, pages=pages, **reader, **corpus.inputs
        ),
        "embed_tiles": embed_tiles.Config(out, corpus.inputs["checkpoint"], corpus.inputs["tiles"]),
    }
