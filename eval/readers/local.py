"""The reader of a checkpoint of this package or of a base Qwen3-VL folder, run here."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.digests import digest_input, digest_text
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.eval.parts import Asked, Item, Prediction
from tilewright.eval.workshop import Workshop
from tilewright.train.pixels import policy_tokens
from tilewright.train.reader import Reader, load_reader


@dataclass(frozen=True)
class LocalReader:
    """``checkpoint``: one of ``reader_checkpoints``. Greedy, at most ``max_new_tokens``."""

    kind: Literal["local"]
    checkpoint: str
    max_new_tokens: int = 32

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "max_new_tokens")


class CheckpointReader:
    """Answers one question at a time; texts stand behind the question, in the order given."""

    stand_in, sees_answers = "", False

    def __init__(self, options: LocalReader, workshop: Workshop) -> None:
        self._options, self._workshop = options, workshop
        self._checkpoint = workshop.readers[options.checkpoint]
        self.title = self._checkpoint.title

    @property
    def identity(self) -> str:
        """Weights, prompt, length and precision."""
        folder = self._workshop.once(
            f"digest of reader {self._options.checkpoint}", lambda: digest_input(self._checkpoint.folder)
        )
        prompt = self._reader().prompt.sha256
        return digest_text(f"local/{folder}/{prompt}/{self._options.max_new_tokens}/{self._workshop.precision}/1")

    def cost(self, item: Item) -> int:
        """Visual tokens of its picture, or tokens of its text."""
        reader = self._reader()
        if item.picture is not None:
            return policy_tokens(*item.picture.shown_px, reader.policy)
        return len(reader.prompt.answer(item.text)) - 1

    def answer(self, asked: Sequence[Asked], out: Path) -> Iterator[tuple[Asked, Prediction | ItemError]]:
        """One after the other."""
        for one in asked:
            try:
                yield one, self._answer(one)
            except (InputError, RuntimeError, ValueError, OSError) as error:
                yield one, ItemError(f"{type(error).__name__}: {error}")

    def _answer(self, asked: Asked) -> Prediction:
        started = time.monotonic()
        images = [item.picture.shown() for item in asked.items if item.picture is not None]
        texts = [item.text for item in asked.items if item.picture is None]
        query = "\n".join([asked.question.query, *asked.question.options, *[f"Text: {text}" for text in texts]])
        found = self._reader().answer(query, images, max_new_tokens=self._options.max_new_tokens)
        read = sum(self.cost(item) for item in asked.items if item.picture is None)
        seconds = time.monotonic() - started
        return Prediction(found.text, found.input_tokens, found.visual_tokens, read, found.output_tokens, seconds)

    def _reader(self) -> Reader:
        work = self._workshop
        return work.once(
            f"reader {self._options.checkpoint}",
            lambda: load_reader(self._checkpoint.folder, device=work.place, dtype=work.dtype),
        )


def local_reader(options: LocalReader, workshop: Workshop) -> CheckpointReader:
    """Raises InputError for a name that is none of ``reader_checkpoints``."""
    if options.checkpoint not in workshop.readers:
        raise InputError(
            f"readers: checkpoint: wanted one of reader_checkpoints {sorted(workshop.readers)}, found"
            f" {options.checkpoint!r}"
        )
    return CheckpointReader(options, workshop)
