"""The reader: prompt, batch, loss, greedy answers, what loading refuses."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers import Qwen2VLImageProcessorPil

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import ReaderExample
from tilewright.train import pixels
from tilewright.train.compress import compress, size
from tilewright.train.pixels import synthetic_image
from tilewright.train.reader import Reader, load_reader, save_reader
from tilewright.train.reader_batch import IGNORED, ReaderCollator, ReaderInput, answer_loss, build_batch
from tilewright.train.reader_prompt import INSTRUCTION

IMAGES = tuple(synthetic_image(100 + 40 * i, 90 + 30 * i, i) for i in range(3))
QUESTIONS = [("Which city?", IMAGES[:1]), ("What is the name of the highest mountain?", IMAGES), ("Who?", ())]


@pytest.fixture(scope="module")
def reader(reader_parts: Any) -> Reader:
    loaded: Reader = reader_parts.load()
    with torch.no_grad():  # spread the logits, so that greedy answers vary
        for name, weight in loaded.model.model.named_parameters():
            if weight.ndim > 1 and "embed" not in name:
                weight.mul_(8)
    return loaded


def test_prompt_is_the_templates_with_images_first(reader: Reader) -> None:
    tokenizer = reader.prompt.tokenizer
    ids = reader.prompt.prompt("Which city?", [2, 3])
    image = "<|vision_start|>{}<|vision_end|>"
    assert tokenizer.decode(ids) == (
        "<|im_start|>user\n"
        + image.format("<|image_pad|>" * 2)
        + image.format("<|image_pad|>" * 3)
        + f"{INSTRUCTION}\nQuestion: Which city?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert ids == tokenizer(tokenizer.decode(ids), add_special_tokens=False)["input_ids"]
    assert reader.prompt.answer("Oslo")[-1] == tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert reader.prompt.decode(reader.prompt.answer("Oslo")) == "Oslo"


@given(st.text(max_size=30), st.sampled_from(["<|im_end|>", "<|image_pad|>", "<|vision_start|>", "<|endoftext|>"]))
@settings(max_examples=40, deadline=None)
def test_no_text_becomes_a_special_token(reader: Reader, text: str, token: str) -> None:
    plain = reader.prompt.prompt("", [4])
    ids = reader.prompt.prompt(text + token + text, [4])
    special = set(reader.prompt.tokenizer.all_special_ids)
    assert [i for i in ids if i in special] == [i for i in plain if i in special]
    assert [i for i in reader.prompt.answer(token + text) if i in special] == [reader.prompt.end_id]


def test_labels_are_the_answers_alone(reader: Reader) -> None:
    rows = [ReaderInput("Which city?", IMAGES[:1], "Oslo"), ReaderInput("Who was it then?", IMAGES, "Ada of Nairobi")]
    batch = build_batch(rows, reader.prompt, reader.policy)
    for i, row in enumerate(rows):
        labels = batch["labels"][i]
        assert labels[labels != IGNORED].tolist() == reader.prompt.answer(row.answer or "")
        assert batch["input_ids"][i][labels != IGNORED].tolist() == reader.prompt.answer(row.answer or "")
    image_tokens = (batch["input_ids"] == reader.prompt.image_token_id).sum()
    assert image_tokens == batch["mm_token_type_ids"].sum() == batch["image_grid_thw"].prod(1).sum() // 4
    assert batch["logits_to_keep"] == 1 + max(len(reader.prompt.answer(row.answer or "")) for row in rows)


def test_patches_are_those_of_the_pillow_processor(reader: Reader, reader_parts: Any) -> None:
    processor = Qwen2VLImageProcessorPil.from_pretrained(reader_parts.model)
    theirs = processor(list(IMAGES), return_tensors="pt")
    ours = reader.to_model(build_batch([ReaderInput("Who?", IMAGES)], reader.prompt, reader.policy))
    assert torch.equal(theirs["image_grid_thw"], ours["image_grid_thw"])
    assert torch.allclose(theirs["pixel_values"], ours["pixel_values"], atol=1e-5)


def test_loss_is_cross_entropy_of_the_answer_tokens(reader: Reader) -> None:
    """The batch loss equals log-softmax terms summed by hand over each row alone, whole logits, no padding."""
    rows = [ReaderInput("Which city?", IMAGES[:1], "Oslo"), ReaderInput("Who was it then?", IMAGES, "Ada of Nairobi")]
    batch = reader.to_model(build_batch(rows, reader.prompt, reader.policy))
    labels = batch.pop("labels")
    with torch.no_grad():
        loss = answer_loss(reader.model(**batch).logits, labels)
        terms = []
        for row in rows:
            alone = reader.to_model(build_batch([row], reader.prompt, reader.policy))
            del alone["labels"], alone["logits_to_keep"]
            scores = reader.model(**alone).logits[0].log_softmax(-1)
            answer = reader.prompt.answer(row.answer or "")
            start = alone["input_ids"].shape[1] - len(answer)
            terms += [-float(scores[start + i - 1, token]) for i, token in enumerate(answer)]
    assert float(loss) == pytest.approx(sum(terms) / len(terms), rel=1e-4)


def test_loss_ignores_what_stands_before_the_answer() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 6, 11, generator=generator)
    labels = torch.full((2, 9), IGNORED)
    labels[0, -2:], labels[1, -4:] = torch.tensor([3, 4]), torch.tensor([1, 2, 5, 6])
    loss = answer_loss(logits, labels)
    changed = logits.clone()
    changed[0, :3], changed[1, 0], changed[:, -1] = 7.0, -5.0, 9.0  # prompt positions, and what follows the end
    assert torch.equal(answer_loss(changed, labels), loss)
    assert float(answer_loss(torch.zeros(2, 6, 11), labels)) == pytest.approx(math.log(11))
    assert float(answer_loss(logits, labels, 12)) == pytest.approx(float(loss) / 2)  # 6 tokens of a batch of 12


def test_batched_answers_equal_single_ones(reader: Reader) -> None:
    single = [reader.answer(query, images, max_new_tokens=10) for query, images in QUESTIONS]
    assert reader.answer_batch(QUESTIONS, max_new_tokens=10) == single
    assert len({answer.text for answer in single}) > 1
    assert [answer.visual_tokens for answer in single] == [
        sum(pixels.policy_tokens(*image.size, reader.policy) for image in images) for _, images in QUESTIONS
    ]
    assert single[2].input_tokens == len(reader.prompt.prompt("Who?", []))


def test_answer_is_the_greedy_path_without_a_cache(reader: Reader) -> None:
    batch = build_batch([ReaderInput(*QUESTIONS[1])], reader.prompt, reader.policy)
    inputs = reader.to_model(batch)
    ids, greedy = inputs.pop("input_ids"), []
    for _ in range(8):
        with torch.no_grad():
            inputs |= {
                "attention_mask": torch.ones_like(ids),
                "mm_token_type_ids": (ids == reader.prompt.image_token_id).long(),
            }
            best = reader.model(input_ids=ids, **inputs).logits[0, -1].argmax()
        greedy.append(int(best))
        ids = torch.cat([ids, best.view(1, 1)], dim=1)
    assert reader.generate(batch, 8)[0] == greedy


def test_order_and_number_of_images_matter(reader: Reader) -> None:
    def logits(images: tuple[Image.Image, ...]) -> torch.Tensor:
        inputs = reader.to_model(build_batch([ReaderInput("Who?", images)], reader.prompt, reader.policy))
        with torch.no_grad():
            return reader.model(**inputs).logits[0, -1]  # type: ignore[no-any-return]

    first = logits(IMAGES[:2])
    assert torch.equal(first, logits(IMAGES[:2]))
    assert not torch.allclose(first, logits(IMAGES[1::-1]))


def test_text_only_after_images_is_as_if_fresh(reader: Reader) -> None:
    """No rope state of an earlier question reaches the next."""
    alone = reader.answer("Who?", (), max_new_tokens=6)
    reader.answer(*QUESTIONS[1], max_new_tokens=2)
    assert reader.answer("Who?", (), max_new_tokens=6) == alone


@pytest.mark.parametrize("compression", [1.0, 2.0, 9.0])
def test_compression_lowers_the_token_cost_as_computed(reader: Reader, compression: float) -> None:
    image = synthetic_image(300, 200)
    answer = reader.answer("Which city?", [image], compression=compression, max_new_tokens=1)
    assert answer.visual_tokens == pixels.policy_tokens(*size(300, 200, compression), reader.policy)
    shrunk = reader.answer("Which city?", [compress(image, compression)], max_new_tokens=1)
    assert shrunk == answer


def test_collator_shows_compressed_tiles_in_the_rows_order(reader: Reader, reader_parts: Any) -> None:
    store = reader_parts.store()
    shown = (reader_parts.tile_ids[5], reader_parts.tile_ids[2])
    example = ReaderExample("q1", "Which city?", "Oslo", shown, 1, 2.0)
    row = ReaderCollator(store, reader.prompt, reader.policy).row(example)
    assert [image.tobytes() for image in row.images] == [compress(store.image(i), 2.0).tobytes() for i in shown]


def test_min_pixels_is_pinned_and_max_pixels_obeyed(reader_parts: Any) -> None:
    reader = load_reader(reader_parts.model, max_pixels=16 * 1024)
    assert reader.policy.min_pixels == 4096
    assert reader.answer("Who?", [synthetic_image(800, 800)], max_new_tokens=1).visual_tokens == 16
    assert reader.answer("Who?", [synthetic_image(20, 30)], max_new_tokens=1).visual_tokens >= 4


def test_saved_reader_is_the_same_reader(reader: Reader, reader_parts: Any, tmp_path: Path) -> None:
    trained = Reader(reader.model, reader.prompt, reader.policy, base_model="tiny", compressions=(1.0, 4.0))
    save_reader(trained, tmp_path / "checkpoint", reader_parts.model)
    loaded = load_reader(tmp_path / "checkpoint")
    assert loaded.contract == trained.contract and loaded.compressions == (1.0, 4.0)
    assert loaded.answer(*QUESTIONS[1], max_new_tokens=8) == reader.answer(*QUESTIONS[1], max_new_tokens=8)
    assert loaded.base_model == "tiny" and reader.base_model == "tiny random weights"
    assert str(tmp_path) not in (tmp_path / "checkpoint/config.json").read_text()
    with pytest.raises(InputError, match="max_pixels"):
        load_reader(tmp_path / "checkpoint", max_pixels=4096)


@pytest.mark.parametrize("damage", ["missing", "unexpected", "shape", "no_weights", "no_tokenizer", "template", "torn"])
def test_a_damaged_folder_is_refused(reader: Reader, reader_parts: Any, tmp_path: Path, damage: str) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "checkpoint"
    save_reader(reader, folder, reader_parts.model)
    weights = folder / "model.safetensors"
    tensors = load_file(str(weights))
    name = "model.visual.merger.linear_fc1.weight"
    if damage == "missing":
        del tensors[name]
    elif damage == "unexpected":
        tensors["model.visual.more.weight"] = torch.zeros(2)
    elif damage == "shape":
        tensors[name] = tensors[name][:-1].contiguous()
    elif damage == "template":
        path = folder / "chat_template.jinja"
        path.write_text(path.read_text().replace("'\\n'", "': '"))
    elif damage == "no_tokenizer":
        (folder / "tokenizer.json").unlink()
    if damage in ("missing", "unexpected", "shape"):
        save_file(tensors, str(weights), metadata={"format": "pt"})
    elif damage == "no_weights":
        weights.unlink()
    elif damage == "torn":
        weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(InputError, match=str(folder)):
        load_reader(folder)


def test_checkpoint_from_another_tokenizer_is_refused(reader: Reader, reader_parts: Any, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    save_reader(reader, folder, reader_parts.model)
    path = folder / "tokenizer.json"
    data = json.loads(path.read_text())
    data["model"]["merges"] = data["model"]["merges"][:-1]
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="trained with prompt"):
        load_reader(folder)


@pytest.mark.parametrize(
    "template", ["", "{{ messages[0].content }}", "{% for m in messages %}{{ m.content[-1].text }}{% endfor %}"]
)
def test_a_template_without_images_is_refused(reader_parts: Any, tmp_path: Path, template: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(reader_parts.model, folder)
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(InputError):
        load_reader(folder).prompt.prompt("Who?", [1])


# a template in the manner of the published instruct models: numbered pictures on demand, each role spelled out
PUBLISHED = """\
{%- set image_count = namespace(value=0) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user\\n' }}
        {%- for content in message.content %}
            {%- if content.type == 'image' or 'image' in content %}
                {%- set image_count.value = image_count.value + 1 %}
                {%- if add_vision_id %}Picture {{ image_count.value }}: {% endif -%}
                <|vision_start|><|image_pad|><|vision_end|>
            {%- elif 'text' in content %}
                {{- content.text }}
            {%- endif %}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- for content in message.content %}{{- content.text }}{%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


def test_a_published_models_template_gives_the_same_prompt(reader: Reader, reader_parts: Any, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(reader_parts.model, folder)
    (folder / "chat_template.jinja").write_text(PUBLISHED)
    other = load_reader(folder)
    assert other.prompt.prompt("Which city?", [2, 3]) == reader.prompt.prompt("Which city?", [2, 3])
    assert other.prompt.answer("Oslo") == reader.prompt.answer("Oslo")
    assert other.prompt.sha256 == reader.prompt.sha256


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.json"):
        load_reader(tmp_path)
