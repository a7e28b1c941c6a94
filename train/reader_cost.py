"""What reader rows cost, from sizes alone: visual tokens in the final grid, and the tokens of a whole row."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import ReaderExample
from tilewright.train.compress import size
from tilewright.train.pixels import PixelPolicy, policy_tokens
from tilewright.train.reader_prompt import ReaderPrompt

Sizes = Callable[[str], tuple[int, int]]  # tile_id -> width and height in px, before compression


@dataclass(frozen=True)
class ImageCost:
    """What a reader is shown of an image: its size in px after compression, and its visual tokens in the final grid.

    ``enlarged``: it is so small that the image processor's ``min_pixels`` blows it up: it costs more than its pixels.
    """

    width_px: int
    height_px: int
    visual_tokens: int
    enlarged: bool


@dataclass(frozen=True)
class RowCost:
    """Tokens of a row: of its images, of its prompt with them, of its answer; and how many images are enlarged."""

    visual_tokens: int
    prompt_tokens: int
    answer_tokens: int
    enlarged_images: int

    @property
    def tokens(self) -> int:
        """The length of the sequence."""
        return self.prompt_tokens + self.answer_tokens


class ContextError(InputError):
    """A row that is longer than the model's context."""


def image_cost(width_px: int, height_px: int, compression: float, policy: PixelPolicy) -> ImageCost:
    """What an image of this size costs at ``compression`` under ``policy``; nothing is decoded.

    Compression rounds down (``compress.size``); then the processor rounds each side to whole tokens (32 px) and keeps
    within its limits. Raises InputError as ``compress.size`` and ``pixels.resized_size``.
    """
    width, height = size(width_px, height_px, compression)
    tokens, factor = policy_tokens(width, height, policy), policy.factor_px
    rounded = round(width / factor) * round(height / factor) * factor**2
    return ImageCost(width, height, tokens, enlarged=policy.fit == "resize" and rounded < policy.min_pixels)


def row_cost(row: ReaderExample, sizes: Sizes, prompt: ReaderPrompt, policy: PixelPolicy) -> RowCost:
    """What ``row`` costs in training; its length is that of its row in a batch. Nothing is decoded."""
    images = [image_cost(*sizes(tile_id), row.compression, policy) for tile_id in row.tile_ids]
    visual = [image.visual_tokens for image in images]
    return RowCost(
        visual_tokens=sum(visual),
        prompt_tokens=len(prompt.prompt(row.query, [0] * len(visual))) + sum(visual),
        answer_tokens=len(prompt.answer(row.answer)),
        enlarged_images=sum(image.enlarged for image in images),
    )


def check_context(rows: Iterable[tuple[ReaderExample, int]], limit: int, where: str) -> None:
    """Raise ContextError if one of ``rows``, (row, tokens that it needs), is longer than ``limit`` tokens."""
    long = [(tokens, row) for row, tokens in rows if tokens > limit]
    if long:
        most, row = max(long, key=lambda one: one[0])
        raise ContextError(
            f"{where}: {len(long)} rows are longer than the context of {limit} tokens; the longest, {row.query_id}, has"
            f" {len(row.tile_ids)} tiles at compression {row.compression:g} and takes {most}: show fewer tiles,"
            " compress more, lower max_pixels or raise max_tokens"
        )


def mean(values: Sequence[int]) -> float:
    """Their mean, to a tenth; 0 of none."""
    return round(sum(values) / len(values), 1) if values else 0.0
