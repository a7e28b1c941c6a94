"""The published recipe and its ablation stairs: one knob from stair to stair, a small run on one rank and on two."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file

from tilewright.data_gen.records import TextPair, write_jsonl

PRESETS = Path(__file__).parents[2] / "configs/train/train_embedder"
SMALL = [
    *("batch_size=4", "steps=5", "text_steps=2", "warmup_steps=1", "learning_rate=1.0e-3", "chunking.rows=1"),
    *("precision=float32", "threads=1", "workers=1", "validate_every=5", "validation_queries=4", "save_every=2"),
]


def preset(name: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))
    return values


@pytest.mark.parametrize(
    ("lower", "upper", "knob"),
    [
        ("paper_inbatch", "paper_naive", "hard_negatives"),
        ("paper_naive", "paper_judged_frozen_vit", "examples"),
        ("paper_judged_frozen_vit", "paper", "adapters"),
    ],
)
def test_a_stair_is_one_knob_from_the_next(lower: str, upper: str, knob: str) -> None:
    low, high = preset(lower), preset(upper)
    assert low.keys() == high.keys()
    assert {name for name in low if low[name] != high[name]} == {knob, "out"}


def test_the_recipe_s_numbers() -> None:
    """As published."""
    paper = preset("paper")
    wanted = {"batch_size": 64, "learning_rate": 7e-6, "warmup_steps": 20, "schedule": "cosine", "hard_negatives": 2}
    wanted |= {"steps": 350, "text_steps": 50}
    assert {name: paper[name] for name in wanted} == wanted
    assert paper["chunking"]["rows"] == 4 and paper["loss"]["temperature"] == 0.07
    assert {name: group["rank"] for name, group in paper["adapters"].items()} == {
        "llm_attn": 32,
        "vit_attn": 32,
        "vit_mlp": 32,
    }
    assert preset("paper_judged_frozen_vit")["adapters"].keys() == {"llm_attn"}


PUBLISHED = {"steps", "text_steps", "batch_size", "hard_negatives", "random_tiles", "learning_rate", "warmup_steps"}
PUBLISHED |= {"schedule", "loss", "chunking", "trainable"}
UNTOLD = "# From here on nothing is published"


@pytest.mark.parametrize("name", ["paper", "paper_inbatch", "paper_naive", "paper_judged_frozen_vit"])
def test_what_is_not_published_says_so(name: str) -> None:
    """Every setting is a path, in the recipe, or marked; stopping early, keeping and checkpointing can be set."""
    text = (PRESETS / f"{name}.yaml").read_text(encoding="utf-8")
    told, untold = text.split(UNTOLD)
    marked = {line.partition(":")[0] for line in told.splitlines() if "not published" in line}
    marked |= yaml.safe_load(untold.partition("\n")[2]).keys()
    paths = {key for key, value in preset(name).items() if str(value).startswith("${runs}")}
    assert preset(name).keys() - {"kind"} == marked | paths | PUBLISHED
    assert not marked & PUBLISHED
    assert {"patience", "keep_last", "gradient_checkpointing", "seed", "validate_every"} <= marked


@pytest.fixture(scope="module")
def paper(inputs: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Overrides that put the paper preset on tiny inputs, all but ``out``."""
    folder = tmp_path_factory.mktemp("paper")
    passages = [f"Passage {number} tells of it." for number in range(5)]
    pairs = [TextPair(f"t{n}", f"Where is {n}?", passages[n % 5], "a" * 16, "heading") for n in range(9)]
    write_jsonl(folder / "text_pairs.jsonl", pairs)
    config = inputs.config(folder)
    paths = [f"{name}={getattr(config, name)}" for name in ("model", "examples", "tiles", "validation", "splits")]
    return [*SMALL, *paths, f"text_pairs={folder / 'text_pairs.jsonl'}"]


def run_paper(out: Path, overrides: list[str], ranks: int) -> list[dict[str, float]]:
    """Curve of the paper preset, by the command line, as so many processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
    module = [sys.executable, "-m", "tilewright.train.train_embedder", str(PRESETS / "paper.yaml")]
    processes = [
        subprocess.Popen([*module, *overrides, f"out={out}"], env=os.environ | group | {"RANK": str(rank)})
        for rank in range(ranks)
    ]
    assert [process.wait(timeout=300) for process in processes] == [0] * ranks
    return [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]


def moved(checkpoint: Path, part: str) -> list[bool]:
    """Whether each ``lora_B`` of the model's ``part`` has left zero."""
    weights = load_file(checkpoint / "adapter/adapter_model.safetensors")
    return [bool(value.any()) for name, value in weights.items() if part in name and "lora_B" in name]


@pytest.mark.slow
def test_it_goes_from_texts_to_tiles_the_same_on_two_ranks(paper: list[str], tmp_path: Path) -> None:
    """The vision tower has no gradient in the first two steps, on both ranks alike, and learns from the third on."""
    one, two = (run_paper(tmp_path / str(ranks), [*paper, "keep_last=3"], ranks) for ranks in (1, 2))
    for alone, shared in zip(one, two, strict=True):
        assert shared == pytest.approx(alone, rel=1e-4, abs=1e-5)
    assert one[1]["valid_negatives"] == one[2]["valid_negatives"] == 2  # three passages; tiles bring hard negatives
    assert one[3]["valid_negatives"] > 2
    for ranks in ("1", "2"):
        texts, tiles = (tmp_path / ranks / f"checkpoints/step-{step}" for step in (2, 4))
        assert not any(moved(texts, "visual")) and all(moved(texts, "language_model"))
        assert all(moved(tiles, "visual"))
