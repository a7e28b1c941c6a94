"""The prompt of an embedder: instruction as system turn, the input as user turn, generation prompt, end token."""

import unicodedata

from tilewright.configs.errors import InputError
from tilewright.train.tokenizer import IMAGE_PAD, TURN_END, TURN_START, VISION_END, VISION_START

PROMPT = "qwen3-vl-embedding/1"  # raised when the layout below changes
TILE_INSTRUCTION = "Represent the user's input."
QUERY_INSTRUCTION = "Retrieve images or text relevant to the user's query."


def finish_instruction(instruction: str) -> str:
    """``instruction`` stripped, with a ``.`` added unless its last character is punctuation, as the model expects."""
    instruction = instruction.strip()
    if not instruction:
        raise InputError("an instruction is empty: wanted a sentence that says what to represent or retrieve")
    return instruction if unicodedata.category(instruction[-1]).startswith("P") else instruction + "."


def prompt_segments(instruction: str, text: str, visual_tokens: int) -> list[tuple[str, int] | str]:
    """The prompt as segments: a ``str`` is plain text, (token, count) is that structure token ``count`` times.

    ``visual_tokens`` 0 means without image; the image stands before the text.
    """
    image: list[tuple[str, int] | str] = [(VISION_START, 1), (IMAGE_PAD, visual_tokens), (VISION_END, 1)]
    user: list[tuple[str, int] | str] = ["user\n", *image, text] if visual_tokens else ["user\n" + text]
    return [
        (TURN_START, 1),
        "system\n" + instruction,
        (TURN_END, 1),
        "\n",
        (TURN_START, 1),
        *user,
        (TURN_END, 1),
        "\n",
        (TURN_START, 1),
        "assistant\n",
    ]
