"""What train_reader writes is served by others: plain transformers give the same answers, so do base and adapter."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import ReaderExample, write_jsonl
from tilewright.train.adapters import LoraGroup
from tilewright.train.compress import compress
from tilewright.train.reader import load_reader, save_reader
from tilewright.train.reader_config import Config
from tilewright.train.reader_prompt import INSTRUCTION
from tilewright.train.train_reader import STAGE

QUESTIONS = ("Which city?", "What is the name of the highest mountain?", "Who was it then?", "When?")
# What a server does, without this package: the folder's own template, image processor and weights
PLAIN = """
import json, sys
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer
torch.set_num_threads(1)
folder, asked = sys.argv[1], json.loads(sys.argv[2])
tokenizer = AutoTokenizer.from_pretrained(folder)
processor = AutoImageProcessor.from_pretrained(folder)
model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
answers = []
for text, paths in asked:
    content = [{"type": "image"}] * len(paths) + [{"type": "text", "text": text}]
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    images = processor([Image.open(path) for path in paths], return_tensors="pt")
    for grid in images["image_grid_thw"]:
        prompt = prompt.replace("<|image_pad|>", "<|seen|>" * (int(grid.prod()) // 4), 1)
    ids = tokenizer(prompt.replace("<|seen|>", "<|image_pad|>"), return_tensors="pt")["input_ids"]
    types = (ids == model.config.image_token_id).long()
    made = model.generate(input_ids=ids, mm_token_type_ids=types, do_sample=False, max_new_tokens=8, **images)
    answers.append(tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True).strip())
assert not any(name.startswith("tilewright") for name in sys.modules)
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def config(reader_parts: Any, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Trained by adapters on a base whose answers vary from question to question."""
    folder = tmp_path_factory.mktemp("export")
    base = load_reader(reader_parts.model)
    with torch.no_grad():
        for name, weight in base.model.model.named_parameters():
            if weight.ndim > 1 and "embed" not in name:
                weight.mul_(8)
    save_reader(base, folder / "base", reader_parts.model)
    (folder / "base/reader.json").unlink()  # a base, as it is downloaded
    ids = reader_parts.tile_ids
    (folder / "data").mkdir()
    rows = [ReaderExample(f"q{i}", QUESTIONS[i], "Oslo", (ids[i], ids[i + 1]), 0, 2.0) for i in range(4)]
    write_jsonl(folder / "data/train.jsonl", rows)
    write_jsonl(folder / "data/validation.jsonl", [])
    config = Config(
        out=folder / "reader",
        model=folder / "base",
        examples=folder / "data",
        tiles=reader_parts.tiles,
        steps=2,
        batch_size=4,
        learning_rate=1.0e-3,
        warmup_steps=0,
        adapters={"llm_attn": LoraGroup(4, 8.0), "vit_attn": LoraGroup(2, 4.0)},
        max_pixels=None,
        evaluate_every=2,
        validation_questions=0,
        save_every=2,
        threads=1,
        seed=5,
        keep="last",
    )
    run_stage(STAGE, config)
    return config


def test_plain_transformers_give_the_same_answers(config: Config, reader_parts: Any, tmp_path: Path) -> None:
    reader, store = load_reader(config.out / "checkpoint"), reader_parts.store()
    asked, wanted = [], []
    for number, question in enumerate(QUESTIONS):
        images = [compress(store.image(tile_id), 2.0) for tile_id in reader_parts.tile_ids[number : number + 2]]
        paths = [str(tmp_path / f"{number}-{place}.png") for place in range(2)]
        for image, path in zip(images, paths, strict=True):
            image.save(path)
        asked.append((f"{INSTRUCTION}\nQuestion: {question}", paths))
        wanted.append(reader.answer(question, images, max_new_tokens=8).text)
    command = [sys.executable, "-c", PLAIN, str(config.out / "checkpoint"), json.dumps(asked)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed.splitlines()[-1]) == wanted
    assert len(set(wanted)) > 1


def test_base_and_adapter_are_the_checkpoint(config: Config) -> None:
    whole = load_reader(config.out / "checkpoint")
    joined = load_reader(config.model, adapter=config.out / "adapter")
    assert joined.contract == whole.contract and joined.compressions == (2.0,)
    wanted, found = whole.model.state_dict(), joined.model.state_dict()
    assert wanted.keys() == found.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
    moved = load_reader(config.model).model.state_dict()
    assert any(not torch.equal(moved[name], wanted[name]) for name in wanted)
    text = (config.out / "adapter/adapter_config.json").read_text()
    assert str(config.out.parent) not in text


def test_an_adapter_of_another_base_is_refused(config: Config, reader_parts: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="wanted an adapter of"):
        load_reader(reader_parts.model, adapter=config.out / "adapter")
    with pytest.raises(InputError, match=r"found no reader\.json"):
        load_reader(config.model, adapter=tmp_path)
