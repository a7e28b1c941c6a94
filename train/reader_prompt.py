"""The prompt of a reader: images, then the question, by the tokenizer's own chat template, for training and evaluation.

The template is rendered around a placeholder, and the question is tokenised apart as plain text: no special token that
a question or an answer spells out has an effect.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.errors import InputError
from tilewright.train.tokenizer import END_OF_TEXT, IMAGE_PAD, PromptTokenizer

CANNOT_ANSWER = "cannot answer"  # what a reader says when the tiles don't show the answer
INSTRUCTION = (
    "Answer the question from the page images above. Reply with the answer only, as short as possible."
    f" If the images do not show it, reply: {CANNOT_ANSWER}."
)
_PLACEHOLDER = "\ue000text\ue000"  # private use characters: in no template


class ReaderPrompt:
    """Builds prompt and answer ids for one tokenizer folder; ``sha256`` names template, instruction and vocabulary.

    Raises InputError if the folder has no tokenizer or no chat template that takes images.
    """

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        self._where = folder
        self._plain = PromptTokenizer.from_folder(folder)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(str(folder))
        if not self.tokenizer.chat_template:
            raise InputError(f"{folder}: the tokenizer has no chat template: wanted an instruct model's tokenizer")
        self.image_token_id = self._plain.ids[IMAGE_PAD]
        self.pad_id = self._plain.ids[END_OF_TEXT]
        self.end_id = self._end_of_turn()
        self._parts: dict[int, tuple[list[int], list[int]]] = {}
        rendered = [self._render(images) for images in (1, 2)]
        self.sha256 = digest_text(canonical_json([INSTRUCTION, rendered, self._plain.fingerprint]))

    def prompt(self, query: str, image_tokens: Sequence[int]) -> list[int]:
        """Ids of the user turn and the opened assistant turn; ``image_tokens``: visual tokens of each image shown."""
        head, tail = self._template(len(image_tokens))
        ids: list[int] = []
        images = iter(image_tokens)
        for token_id in head:
            ids.extend([token_id] * (next(images) if token_id == self.image_token_id else 1))
        return [*ids, *self._plain.text([f"{INSTRUCTION}\nQuestion: {query}"])[0], *tail]

    def answer(self, answer: str) -> list[int]:
        """Ids of an answer with the token that ends the turn: what the reader learns to say."""
        return [*self._plain.text([answer])[0], self.end_id]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of generated ids, without special tokens and outer white space."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True)).strip()

    def _template(self, images: int) -> tuple[list[int], list[int]]:
        """Ids before and after the question for a number of images."""
        if images not in self._parts:
            before, after = self._render(images)
            head, tail = (self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (before, after))
            if head.count(self.image_token_id) != images or self.image_token_id in tail:
                raise InputError(
                    f"{self._where}: the chat template gives {head.count(self.image_token_id)} image tokens before the"
                    f" question for {images} images: wanted one each, images first"
                )
            self._parts[images] = (head, tail)
        return self._parts[images]

    def _render(self, images: int) -> tuple[str, str]:
        content = [{"type": "image"}] * images + [{"type": "text", "text": _PLACEHOLDER}]
        return self._around_placeholder([{"role": "user", "content": content}], add_generation_prompt=True)

    def _end_of_turn(self) -> int:
        """The token that the template puts behind an assistant's answer (``<|im_end|>``)."""
        turns = [
            {"role": "user", "content": [{"type": "text", "text": "?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": _PLACEHOLDER}]},
        ]
        _, after = self._around_placeholder(turns, add_generation_prompt=False)
        ids = self.tokenizer(after, add_special_tokens=False)["input_ids"]
        if not ids or ids[0] not in self.tokenizer.all_special_ids:
            raise InputError(f"{self._where}: the chat template ends an answer with {after!r}: wanted a special token")
        return int(ids[0])

    def _around_placeholder(
        self, messages: Sequence[dict[str, Any]], *, add_generation_prompt: bool
    ) -> tuple[str, str]:
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=add_generation_prompt)
        before, found, after = text.partition(_PLACEHOLDER)
        if not found or _PLACEHOLDER in after:
            raise InputError(f"{self._where}: the chat template doesn't show a text once and as it is: {text[:200]!r}")
        return before, after
