"""A nano reader run here: it reads each tile at the compression it is given at, and answers with words that it read."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tilewright.configs.digests import digest_input, digest_text
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.eval.parts import Asked, Item, Prediction
from tilewright.eval.workshop import Workshop
from tilewright.train.nano_reader_checkpoint import NanoReader, Seen
from tilewright.train.pixels import visual_tokens

READINGS = "readings"  # in the cache's folder: what towers read on tiles


@dataclass(frozen=True)
class NanoReaderOptions:
    """``checkpoint``: one of ``reader_checkpoints``, of train_nano_reader."""

    kind: Literal["nano"]
    checkpoint: str


class SpanReader:
    """Answers from pictures alone. Tokens are visual ones at factor 32 of the pictures as delivered, an estimate: what
    they would cost a reader of Qwen's kind."""

    sees_answers = False

    def __init__(self, options: NanoReaderOptions, workshop: Workshop) -> None:
        self._name, self._workshop = options.checkpoint, workshop
        self._checkpoint = workshop.readers[options.checkpoint]
        self.title = self._checkpoint.title
        self.stand_in = (
            f"{self.title}: a small lexical reader that points at words it read. It matches letters and knows no"
            " meaning: its accuracy isn't that of a language model."
        )

    @property
    def identity(self) -> str:
        """Of its weights and precision."""
        digest = self._workshop.once(f"digest of reader {self._name}", lambda: digest_input(self._checkpoint.folder))
        return digest_text(f"nano/{digest}/{self._workshop.precision}/1")

    def cost(self, item: Item) -> int:
        """Visual tokens at factor 32; nothing of a text is read."""
        return visual_tokens(*item.picture.shown_px) if item.picture is not None else 0

    def answer(self, asked: Sequence[Asked], out: Path) -> Iterator[tuple[Asked, Prediction | ItemError]]:
        """Each by itself; a text instead of a picture, or a broken picture, is an error of its question."""
        for one in asked:
            started = time.monotonic()
            try:
                said = self._reader().answer(one.question.query, _seen(one.items))
            except InputError as error:
                yield one, ItemError(f"{type(error).__name__}: {error}")
                continue
            visual = sum(map(self.cost, one.items))
            words = len(one.question.query.split())
            seconds = time.monotonic() - started
            yield one, Prediction(said, visual + words, visual, 0, len(said.split()), seconds, told=False)

    def _reader(self) -> NanoReader:
        work = self._workshop
        return work.once(
            f"reader {self._name}",
            lambda: NanoReader(
                self._checkpoint.folder, work.cache.folder / READINGS, bfloat16=work.precision == "bfloat16"
            ),
        )


def _seen(items: Sequence[Item]) -> list[Seen]:
    """The pictures of a question's items. Raises InputError for a text."""
    pictures = [item.picture for item in items if item.picture is not None]
    if len(pictures) < len(items):
        raise InputError("a nano reader reads pictures: wanted no texts among what is delivered")
    return [Seen(picture.sha256, picture.compression, picture.shown) for picture in pictures]


def nano_reader(options: NanoReaderOptions, workshop: Workshop) -> SpanReader:
    """Raises InputError for a name that is none of ``reader_checkpoints``, and for one with an adapter."""
    if options.checkpoint not in workshop.readers:
        raise InputError(
            f"readers: checkpoint: wanted one of reader_checkpoints {sorted(workshop.readers)}, found"
            f" {options.checkpoint!r}"
        )
    if workshop.readers[options.checkpoint].adapter is not None:
        raise InputError(
            f"reader_checkpoints: {options.checkpoint}: adapter: wanted none: a nano reader's tower is trained whole"
        )
    return SpanReader(options, workshop)
