"""A stand-in for a reader, offline: it knows the gold answers and says one if it stands in what it is given.

Its accuracy is the share of questions whose answer can be read at all in what is delivered: a ceiling, no model's.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tilewright.configs.items import ItemError
from tilewright.eval.deliveries import HTML_SOURCES
from tilewright.eval.parts import Asked, Item, Prediction
from tilewright.eval.string_evidence import holds, visible
from tilewright.eval.tools import require_module
from tilewright.eval.workshop import WORDS, Workshop
from tilewright.train.pixels import visual_tokens
from tilewright.train.reader_prompt import CANNOT_ANSWER


@dataclass(frozen=True)
class StringEvidence:
    """``pictures``: what counts as a picture's text: the DOM text of its tile (``dom``), or what tesseract reads on the
    picture as it is delivered (``ocr``), so that compression takes its toll. ``tokenizer``: what counts a text's
    tokens: a checkpoint's name, ``words`` or ``words_and_marks``."""

    kind: Literal["string_evidence"]
    pictures: Literal["dom", "ocr"] = "dom"
    tokenizer: str = WORDS


class StringReader:
    """``string_evidence``. Tokens: visual ones at factor 32, texts by ``tokenizer``; both are estimates."""

    sees_answers = True

    def __init__(self, options: StringEvidence, workshop: Workshop) -> None:
        self._options, self._workshop = options, workshop
        self._count = workshop.counter(options.tokenizer)
        self.title = f"string evidence in {'OCR of what is delivered' if options.pictures == 'ocr' else 'DOM text'}"
        self.stand_in = (
            f"{self.title}: a stand-in for a reader. It knows the gold answers and gives one if it stands in what was"
            " delivered: a ceiling for readers, not the accuracy of one."
        )
        self.identity = f"string_evidence/{options.pictures}/{options.tokenizer}/2"
        if options.pictures == "ocr":
            from tilewright.eval.ocr import require_tesseract

            ocr = workshop.ocr
            self.identity += f"/{require_tesseract(ocr.language)}/{ocr.language}/{ocr.scale}"

    def cost(self, item: Item) -> int:
        """Visual tokens at factor 32, or those of the text."""
        return visual_tokens(*item.picture.shown_px) if item.picture is not None else self._count(item.text)

    def answer(self, asked: Sequence[Asked], out: Path) -> Iterator[tuple[Asked, Prediction | ItemError]]:
        """Each by itself; a picture that OCR can't read is an error of its question."""
        read, errors = self._read(asked)
        for one in asked:
            started = time.monotonic()
            failed = next((errors[item.digest] for item in one.items if item.digest in errors), None)
            if failed is not None:
                yield one, ItemError(f"OCR failed: {failed}")
                continue
            texts = [read[item.digest] if item.digest in read else _text(item) for item in one.items]
            answers = one.question.answers
            said = next((answer for answer in answers if any(holds(text, [answer]) for text in texts)), CANNOT_ANSWER)
            visual = sum(self.cost(item) for item in one.items if item.picture is not None)
            text = sum(self.cost(item) for item in one.items if item.picture is None)
            total = visual + text + self._count(one.question.query)
            seconds = time.monotonic() - started
            yield one, Prediction(said, total, visual, text, self._count(said), seconds, told=False)

    def _read(self, asked: Sequence[Asked]) -> tuple[dict[str, str], dict[str, str]]:
        """({item digest: text}, {item digest: error}) of pictures read by OCR; empty where DOM texts count."""
        if self._options.pictures == "dom":
            return {}, {}
        from tilewright.eval.ocr import picture_key, read_pictures

        keys = {item.digest: item.picture for one in asked for item in one.items if item.picture is not None}
        texts, errors = read_pictures(list(keys.values()), self._workshop.ocr, self._workshop.cache)
        named = {digest: picture_key(picture) for digest, picture in keys.items()}
        return (
            {digest: texts[name] for digest, name in named.items() if name in texts},
            {digest: errors[name] for digest, name in named.items() if name in errors},
        )


def _text(item: Item) -> str:
    return visible(item.text) if item.source in HTML_SOURCES else item.text


def string_reader(options: StringEvidence, workshop: Workshop) -> StringReader:
    """Raises MissingToolError if OCR is wanted and tesseract isn't there."""
    if options.pictures == "ocr":
        require_module("pytesseract", "ocr")
    return StringReader(options, workshop)
