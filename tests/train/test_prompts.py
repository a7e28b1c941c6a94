"""Golden prompts: strings and token ids against transformers' own Qwen3VLProcessor and chat template."""

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.pixels import synthetic_image
from tilewright.train.prompts import QUERY_INSTRUCTION, TILE_INSTRUCTION, prompt_segments

torch.set_num_threads(1)
TEXTS = (
    "Who?",
    "In which year was the physicist Anders Ångström born?",
    "  two\nlines, 1,024 px  and  spaces ",
    "中文 🙂 naïve",
)
SIZES = ((300, 220), (90, 400), (64, 64), (203, 151))


@pytest.fixture(scope="module")
def folder(reader_parts: Any) -> Path:
    return Path(reader_parts.model).parent / "embedder"


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return load_encoder(folder)


@pytest.fixture(scope="module")
def processor(folder: Path) -> Any:
    """transformers' processor, without the video processor, which would need torchvision."""
    from transformers import AutoTokenizer, Qwen2VLImageProcessorPil, Qwen3VLProcessor

    class Processor(Qwen3VLProcessor):
        def check_argument_for_proper_class(self, *_: Any, **__: Any) -> None: ...

    tokenizer = AutoTokenizer.from_pretrained(folder)
    return Processor(
        image_processor=Qwen2VLImageProcessorPil.from_pretrained(folder),
        tokenizer=tokenizer,
        video_processor=None,
        chat_template=tokenizer.chat_template,
    )


def _rendered(processor: Any, instruction: str, text: str, image: Image.Image | None) -> str:
    content: list[dict[str, Any]] = [{"type": "image", "image": image}] if image else []
    content += [{"type": "text", "text": text}] if text else []
    system = {"role": "system", "content": [{"type": "text", "text": instruction}]}
    messages = [system, {"role": "user", "content": content}]
    return str(processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


def _string(segments: list[tuple[str, int] | str]) -> str:
    return "".join(segment if isinstance(segment, str) else segment[0] * segment[1] for segment in segments)


def _images(pattern: str) -> list[Image.Image | None]:
    shown = zip(pattern, SIZES, strict=True)
    return [synthetic_image(*size, seed) if mark == "i" else None for seed, (mark, size) in enumerate(shown)]


CASES = [
    pytest.param("queries", QUERY_INSTRUCTION, TEXTS, "....", id="queries"),
    pytest.param("queries", QUERY_INSTRUCTION, TEXTS, "iiii", id="queries with a picture"),
    pytest.param("queries", QUERY_INSTRUCTION, TEXTS, "i..i", id="queries, some with a picture"),
    pytest.param("documents", TILE_INSTRUCTION, TEXTS, "....", id="texts in the place of tiles"),
    pytest.param("documents", TILE_INSTRUCTION, ("",) * 4, "iiii", id="tiles"),
    pytest.param("documents", TILE_INSTRUCTION, TEXTS, ".i.i", id="texts and pictures in the place of tiles"),
]


def test_the_prompts_by_hand(processor: Any) -> None:
    """What the model was trained on, written out; the processor's own template says the same."""
    query = (
        "<|im_start|>system\nRetrieve images or text relevant to the user's query.<|im_end|>\n"
        "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"
    )
    tile = (
        "<|im_start|>system\nRepresent the user's input.<|im_end|>\n"
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|><|im_end|>\n<|im_start|>assistant\n"
    )
    assert _string(prompt_segments(QUERY_INSTRUCTION, "Who?", 0)) == query
    assert _rendered(processor, QUERY_INSTRUCTION, "Who?", None) == query
    assert _string(prompt_segments(TILE_INSTRUCTION, "", 1)) == tile
    assert _rendered(processor, TILE_INSTRUCTION, "", synthetic_image(64, 64)) == tile


@pytest.mark.parametrize(("kind", "instruction", "texts", "pattern"), CASES)
def test_strings_ids_and_grids_equal_the_processors(
    encoder: Encoder, processor: Any, kind: str, instruction: str, texts: tuple[str, ...], pattern: str
) -> None:
    images = _images(pattern)
    batch = getattr(encoder.batcher, kind)(texts, images)
    shown = iter(batch.grids if batch.grids is not None else [])
    for row, (text, image) in enumerate(zip(texts, images, strict=True)):
        prompt = _rendered(processor, instruction, text.strip(), image)
        assert _string(prompt_segments(instruction, text.strip(), 1 if image else 0)) == prompt
        wanted = processor(text=[prompt], images=[image] if image else None, return_tensors="pt")
        length = int(batch.pooled[row]) + 1
        assert batch.input_ids[row, :length].tolist() == wanted["input_ids"][0].tolist()
        assert wanted["input_ids"][0, -1] == encoder.contract.last_token_id  # the processor appends what we pool
        assert batch.attention_mask[row].tolist() == [1] * length + [0] * (batch.input_ids.shape[1] - length)
        if image:
            assert torch.equal(next(shown), wanted["image_grid_thw"][0])
            padded = int((batch.input_ids[row] == encoder.batcher.rows.tokenizer.ids["<|image_pad|>"]).sum())
            assert padded == encoder.tokens(*image.size)
    assert next(shown, None) is None


def test_a_tile_is_a_document_without_text(encoder: Encoder) -> None:
    images = [image for image in _images("iiii") if image]
    tiles, documents = encoder.batcher.tiles(images), encoder.batcher.documents([""] * 4, images)
    assert torch.equal(tiles.input_ids, documents.input_ids)
    text = encoder.document_batch(["Who?"])
    assert text.patches is None
    assert not torch.equal(text.input_ids, encoder.query_batch(["Who?"]).input_ids)  # another instruction


def test_token_counts_of_full_tiles_in_ids(folder: Path) -> None:
    """875 × 1024 px -> 864 visual tokens, in the ids and in the count that decodes nothing."""
    encoder = load_encoder(folder, min_pixels=4096, max_pixels=1843200)
    token = encoder.batcher.rows.tokenizer.ids["<|image_pad|>"]
    for size, tokens in (((875, 1024), 864), ((875, 300), 243), ((906, 1055), 924), ((875, 1055), 891)):
        batch = encoder.tile_batch([Image.new("RGB", size)])
        assert int((batch.input_ids == token).sum()) == encoder.tokens(*size) == tokens
