"""The reader of a checkpoint of this package or of a base Qwen3-VL folder, run here."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image

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
    """``checkpoint``: one of ``reader_checkpoints``. Greedy, at most ``max_new_tokens``; ``batch_size`` questions at a
    time, each answered as if alone (but for rounding)."""

    kind: Literal["local"]
    checkpoint: str
    max_new_tokens: int = 32
    batch_size: int = 1

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "max_new_tokens", "batch_size")


class CheckpointReader:
    """Answers questions in batches; texts stand behind the question, in the order given."""

    stand_in, sees_answers = "", False

    def __init__(self, options: LocalReader, workshop: Workshop) -> None:
        self._options, self._workshop = options, workshop
        self._checkpoint = workshop.readers[options.checkpoint]
        self.title = self._checkpoint.title

    @property
    def identity(self) -> str:
        """Weights, prompt, length, and what rounding depends on."""
        weights = self._workshop.once(f"digest of reader {self._options.checkpoint}", self._weights)
        prompt = self._reader().prompt.sha256
        options = self._options
        together = "" if options.batch_size == 1 else f"/batch {options.batch_size}"
        return digest_text(f"local/{weights}/{prompt}/{options.max_new_tokens}/{self._workshop.precision}/2{together}")

    def _weights(self) -> str:
        adapter = self._checkpoint.adapter
        digest = digest_input(self._checkpoint.folder)
        return digest if adapter is None else f"{digest}/{digest_input(adapter)}"

    def cost(self, item: Item) -> int:
        """Visual tokens of its picture, or tokens of its text with what marks it as one."""
        reader = self._reader()
        if item.picture is not None:
            return policy_tokens(*item.picture.shown_px, reader.policy)
        return len(reader.prompt.answer(f"\n{_marked(item)}")) - 1

    def answer(self, asked: Sequence[Asked], out: Path) -> Iterator[tuple[Asked, Prediction | ItemError]]:
        """Batch after batch."""
        size = self._options.batch_size
        for start in range(0, len(asked), size):
            yield from self._answer(asked[start : start + size])

    def _answer(self, asked: Sequence[Asked]) -> list[tuple[Asked, Prediction | ItemError]]:
        """The answers of one batch. If it fails, one after the other, so that the error is its question's alone."""
        try:
            return list(zip(asked, self._predictions(asked), strict=True))
        except (InputError, RuntimeError, ValueError, OSError) as error:
            if len(asked) == 1:
                return [(asked[0], ItemError(f"{type(error).__name__}: {error}"))]
        return [answered for one in asked for answered in self._answer([one])]

    def _predictions(self, asked: Sequence[Asked]) -> list[Prediction]:
        started = time.monotonic()
        questions = [_as_question(one) for one in asked]
        answers = self._reader().answer_batch(questions, max_new_tokens=self._options.max_new_tokens)
        seconds = (time.monotonic() - started) / len(asked)
        read = [sum(self.cost(item) for item in one.items if item.picture is None) for one in asked]
        return [
            Prediction(found.text, found.input_tokens, found.visual_tokens, texts, found.output_tokens, seconds)
            for found, texts in zip(answers, read, strict=True)
        ]

    def _reader(self) -> Reader:
        work = self._workshop
        return work.once(
            f"reader {self._options.checkpoint}",
            lambda: load_reader(
                self._checkpoint.folder, device=work.place, dtype=work.dtype, adapter=self._checkpoint.adapter
            ),
        )


def _as_question(asked: Asked) -> tuple[str, list[Image.Image]]:
    """The words and the pictures, as they are delivered."""
    images = [item.picture.shown() for item in asked.items if item.picture is not None]
    texts = [_marked(item) for item in asked.items if item.picture is None]
    return "\n".join([asked.question.query, *asked.question.options, *texts]), images


def _marked(item: Item) -> str:
    return f"Text: {item.text}"


def local_reader(options: LocalReader, workshop: Workshop) -> CheckpointReader:
    """Raises InputError for a name that is none of ``reader_checkpoints``."""
    if options.checkpoint not in workshop.readers:
        raise InputError(
            f"readers: checkpoint: wanted one of reader_checkpoints {sorted(workshop.readers)}, found"
            f" {options.checkpoint!r}"
        )
    return CheckpointReader(options, workshop)
