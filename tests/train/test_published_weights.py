"""What only the real weights can show: run by whoever has Qwen3-VL-Embedding-2B.

TILEWRIGHT_EMBEDDER_WEIGHTS names its folder; TILEWRIGHT_EMBEDDER_IMAGE, if set, a file with the published example's
image (``published_similarities.json`` says where it is).
"""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tilewright.data_gen.images import decode_image
from tilewright.train.prompts import QUERY_INSTRUCTION, TILE_INSTRUCTION, prompt_segments
from tilewright.train.tokenizer import PromptTokenizer
from tilewright.train.verify import load_as_published, published, verify_published

torch.set_num_threads(1)
WEIGHTS = os.environ.get("TILEWRIGHT_EMBEDDER_WEIGHTS")
IMAGE = os.environ.get("TILEWRIGHT_EMBEDDER_IMAGE")
TEXTS = ("Who?", "In which year was the physicist Anders Ångström born?", "two\nlines, 1,024 px", "中文 🙂 naïve")
pytestmark = [
    pytest.mark.needs_weights,
    pytest.mark.skipif(WEIGHTS is None, reason="TILEWRIGHT_EMBEDDER_WEIGHTS names no folder of Qwen3-VL-Embedding-2B"),
]


def test_the_real_model_gives_the_published_similarities() -> None:
    assert WEIGHTS is not None
    encoder = load_as_published(Path(WEIGHTS), None, "cpu", torch.float32)
    image = None if IMAGE is None else decode_image(Path(IMAGE).read_bytes())
    checks = verify_published(encoder, published(), image)
    assert [check for check in checks if not check.good] == []


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("instruction", [QUERY_INSTRUCTION, TILE_INSTRUCTION])
@pytest.mark.parametrize("images", [0, 1])
def test_its_own_template_and_tokenizer_give_our_prompts(text: str, instruction: str, images: int) -> None:
    """Needs the tokenizer alone. The tokenizer appends what we pool: that is the reading to be confirmed."""
    from transformers import AutoTokenizer

    assert WEIGHTS is not None
    theirs, ours = AutoTokenizer.from_pretrained(WEIGHTS), PromptTokenizer.from_folder(Path(WEIGHTS))
    content: list[dict[str, Any]] = [{"type": "image"}] * images + [{"type": "text", "text": text}]
    system = {"role": "system", "content": [{"type": "text", "text": instruction}]}
    messages = [system, {"role": "user", "content": content}]
    prompt = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids: list[int] = []
    string = ""
    for segment in prompt_segments(instruction, text, images):
        plain = isinstance(segment, str)
        ids += ours.text([str(segment)])[0] if plain else [ours.ids[segment[0]]]
        string += segment if isinstance(segment, str) else segment[0]
    assert string == prompt
    assert [*ids, *ours.tail] == theirs(prompt).input_ids
    assert ours.token(ours.last_token_id()) == "<|endoftext|>"
