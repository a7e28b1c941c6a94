"""A stand-in for a reader that can't be better than its eyes: tesseract reads the pictures, then the answer's string
is looked for in what it read. Its accuracy against compression says how much text a picture still shows."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from PIL import Image

from tilewright.configs.bounds import check_bounds
from tilewright.configs.digests import digest_text
from tilewright.configs.items import ItemError
from tilewright.eval.parts import Asked, Item, Picture, Prediction
from tilewright.eval.readers.string_evidence import StringEvidence, string_reader
from tilewright.eval.workshop import Workshop


@dataclass(frozen=True)
class OcrReader:
    """Pictures whose sides are below ``upscale_below`` of the original's are enlarged back to its size before
    tesseract sees them, for its models expect letters of some 20 px; 0: never."""

    kind: Literal["ocr"]
    upscale_below: float = 0.8

    def __post_init__(self) -> None:
        check_bounds(self, 0, 1, "upscale_below")


class TesseractReader:
    """String evidence in what tesseract reads. Tokens are those of the pictures as delivered, before any enlarging."""

    sees_answers = True

    def __init__(self, options: OcrReader, workshop: Workshop) -> None:
        self._below = options.upscale_below
        self._strings = string_reader(StringEvidence("string_evidence", pictures="ocr"), workshop)
        self.title = "tesseract, then string evidence"
        self.stand_in = self._strings.stand_in
        self.identity = f"ocr/{self._below!r}/{self._strings.identity}"

    def cost(self, item: Item) -> int:
        """Visual tokens at factor 32, or those of the text."""
        return self._strings.cost(item)

    def answer(self, asked: Sequence[Asked], out: Path) -> Iterator[tuple[Asked, Prediction | ItemError]]:
        """Each by itself; a picture that OCR can't read is an error of its question."""
        enlarged = [replace(one, items=tuple(self._enlarged(item) for item in one.items)) for one in asked]
        for one, (seen, value) in zip(asked, self._strings.answer(enlarged, out), strict=True):
            yield one, value if isinstance(value, ItemError) else self._charged(value, one, seen)

    def _enlarged(self, item: Item) -> Item:
        return item if item.picture is None else replace(item, picture=upscaled(item.picture, self._below))

    def _charged(self, prediction: Prediction, given: Asked, seen: Asked) -> Prediction:
        """The prediction at the cost of what was given."""
        more = sum(map(self.cost, given.items)) - sum(map(self.cost, seen.items))
        return replace(
            prediction,
            input_tokens=prediction.input_tokens + more,
            visual_tokens=prediction.visual_tokens + more,
        )


def upscaled(picture: Picture, below: float) -> Picture:
    """A compressed picture back at its size before, by Lanczos, if its sides are less than ``below`` of that."""
    if 1 / math.sqrt(picture.compression) >= below:
        return picture
    content = digest_text(f"upscaled/{picture.sha256}/{picture.compression!r}")
    return Picture(content, picture.size_px, functools.partial(_at_full_size, picture))


def _at_full_size(picture: Picture) -> Image.Image:
    return picture.shown().resize(picture.size_px, Image.Resampling.LANCZOS)


def ocr_reader(options: OcrReader, workshop: Workshop) -> TesseractReader:
    """Raises MissingToolError if tesseract isn't there."""
    return TesseractReader(options, workshop)
