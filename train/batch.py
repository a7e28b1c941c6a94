"""Queries and tiles as model inputs: tokenised, patchified, padded. No device work; everything here pickles."""

import dataclasses
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal, Protocol, Self

import torch
from PIL import Image
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.train.contract import EncoderContract
from tilewright.train.pixels import patchify
from tilewright.train.prompts import prompt_segments
from tilewright.train.tokenizer import IMAGE_PAD, PromptTokenizer


@dataclass(frozen=True)
class Batch:
    """Model inputs of B queries or tiles.

    ``input_ids``, ``attention_mask`` [B, L]; ``position_ids`` [3, B, L] (time, row, column of multimodal rotary
    positions); ``patches`` uint8 [sum of patches, 3·p·p] and ``grids`` [images, 3], None without images;
    ``image_rows`` names the row of each image, in ascending order. ``pooled`` [B] is the last attended position.
    """

    input_ids: Tensor
    attention_mask: Tensor
    position_ids: Tensor
    pooled: Tensor
    patches: Tensor | None
    grids: Tensor | None
    image_rows: tuple[int, ...]
    left_padded: bool

    def __len__(self) -> int:
        return len(self.input_ids)

    def to(self, device: torch.device | str) -> Self:
        """The batch with its tensors on ``device``."""
        return dataclasses.replace(
            self,
            input_ids=self.input_ids.to(device, non_blocking=True),
            attention_mask=self.attention_mask.to(device, non_blocking=True),
            position_ids=self.position_ids.to(device, non_blocking=True),
            pooled=self.pooled.to(device, non_blocking=True),
            patches=None if self.patches is None else self.patches.to(device, non_blocking=True),
            grids=None if self.grids is None else self.grids.to(device, non_blocking=True),
        )

    def rows(self, start: int, stop: int) -> Self:
        """Rows ``start`` to ``stop`` (exclusive) with their images; padding on the right is cut to the longest row."""
        length = self.input_ids.shape[1]
        if not self.left_padded and start < stop:
            length = int(self.pooled[start:stop].max()) + 1
        first, last = (bisect_left(self.image_rows, row) for row in (start, stop))
        patches, grids = None, None
        if first < last and self.patches is not None and self.grids is not None:
            patches = self.patches[self._patch_starts[first] : self._patch_starts[last]]
            grids = self.grids[first:last]
        return dataclasses.replace(
            self,
            input_ids=self.input_ids[start:stop, :length],
            attention_mask=self.attention_mask[start:stop, :length],
            position_ids=self.position_ids[:, start:stop, :length],
            pooled=self.pooled[start:stop],
            patches=patches,
            grids=grids,
            image_rows=tuple(row - start for row in self.image_rows[first:last]),
        )

    @cached_property
    def _patch_starts(self) -> list[int]:
        """Where each image's patches start, and where the last one's end."""
        counts = [] if self.grids is None else self.grids.prod(1).tolist()
        return list(accumulate(counts, initial=0))


Row = tuple[list[int], Tensor]
"""Token ids of one query, tile or text, and their positions [3, L]."""
Shapes = Mapping[int, tuple[int, int]]
"""{row: (rows, columns) of visual tokens} of the rows that have a picture."""


class RowMaker(Protocol):
    """How a family's model wants texts and pictures as tokens. Picklable."""

    def __call__(self, contract: EncoderContract, instruction: str, texts: Sequence[str], shapes: Shapes) -> list[Row]:
        """A row for each of ``texts``. Raises InputError for one without text and picture."""
        ...


class Batcher:
    """Makes batches by the contract; picklable, so data-loading workers can hold one."""

    def __init__(self, contract: EncoderContract, rows: RowMaker) -> None:
        self.contract, self.rows = contract, rows

    def queries(
        self,
        texts: Sequence[str],
        images: Sequence[Image.Image | None] | None = None,
        padding: Literal["left", "right"] = "right",
    ) -> Batch:
        """A batch of queries; ``images`` gives each its picture or None. Raises InputError for an empty query."""
        return self._batch(self.contract.query_instruction, texts, images, padding)

    def tiles(self, images: Sequence[Image.Image], padding: Literal["left", "right"] = "right") -> Batch:
        """A batch of tiles, each the whole user turn."""
        return self.documents([""] * len(images), images, padding)

    def documents(
        self,
        texts: Sequence[str],
        images: Sequence[Image.Image | None] | None = None,
        padding: Literal["left", "right"] = "right",
    ) -> Batch:
        """A batch of texts under the tiles' instruction; ``images`` as for queries. InputError for an empty text."""
        return self._batch(self.contract.tile_instruction, texts, images, padding)

    def _batch(
        self, instruction: str, texts: Sequence[str], images: Sequence[Image.Image | None] | None, padding: str
    ) -> Batch:
        if not texts:
            raise InputError("an empty batch: wanted at least one query, tile or text")
        images = [None] * len(texts) if images is None else images
        if len(images) != len(texts):
            raise InputError(f"{len(texts)} texts and {len(images)} pictures: wanted one (or None) for each text")
        shown = [(row, image) for row, image in enumerate(images) if image is not None]
        patches, grids = None, None
        shapes: dict[int, tuple[int, int]] = {}
        if shown:
            patches, grids = patchify([image for _, image in shown], self.contract.pixels)
            merge = self.contract.pixels.merge_size
            for (row, _), (_, height, width) in zip(shown, grids.tolist(), strict=True):
                shapes[row] = (height // merge, width // merge)
        rows = self.rows(self.contract, instruction, [text.strip() for text in texts], shapes)
        return _padded(rows, padding, patches, grids, tuple(row for row, _ in shown))


class PromptRows:
    """Rows of Qwen's prompt: see ``prompts``."""

    def __init__(self, tokenizer: PromptTokenizer) -> None:
        self.tokenizer = tokenizer

    def __call__(self, contract: EncoderContract, instruction: str, texts: Sequence[str], shapes: Shapes) -> list[Row]:
        """See ``RowMaker``; raises InputError for another last token than the contract's, too."""
        prompts = []
        for row, text in enumerate(texts):
            rows, columns = shapes.get(row, (0, 0))
            if not text and not rows:
                raise InputError(f"text {row} of the batch is empty: wanted a text or a picture")
            prompts.append(prompt_segments(instruction, text, rows * columns))
        plain = [segment for prompt in prompts for segment in prompt if isinstance(segment, str)]
        encoded = iter(self.tokenizer.text(plain))
        limit = contract.max_text_tokens
        result = []
        for row, prompt in enumerate(prompts):
            ids: list[int] = []
            for segment in prompt:
                if isinstance(segment, str):
                    ids += next(encoded)[:limit]
                else:
                    ids += [self.tokenizer.ids[segment[0]]] * segment[1]
            ids += self.tokenizer.tail
            if ids[-1] != contract.last_token_id:
                raise InputError(f"the prompt ends with token {ids[-1]}, the contract pools {contract.last_token_id}")
            result.append((ids, positions(ids, self.tokenizer.ids[IMAGE_PAD], shapes.get(row))))
        return result


def positions(ids: Sequence[int], image_token_id: int, shape: tuple[int, int] | None) -> Tensor:
    """Multimodal rotary positions [3, L] of one prompt with at most one image of ``shape`` (rows, columns) tokens.

    Text counts on in all three; an image's tokens share one time, and count rows and columns from there; text goes on
    after the larger side (Qwen2-VL, section 2.1; transformers' ``get_rope_index``).
    """
    if shape is None:
        return torch.arange(len(ids)).expand(3, -1)
    rows, columns = shape
    before = ids.index(image_token_id)
    after = len(ids) - before - rows * columns
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    image = torch.stack([torch.zeros_like(row), row, column]).flatten(1) + before
    text = torch.arange(after).expand(3, -1) + before + max(rows, columns)
    return torch.cat([torch.arange(before).expand(3, -1), image, text], dim=1)


def _padded(
    rows: list[Row],
    padding: str,
    patches: Tensor | None,
    grids: Tensor | None,
    image_rows: tuple[int, ...],
) -> Batch:
    length = max(len(ids) for ids, _ in rows)
    input_ids = torch.zeros(len(rows), length, dtype=torch.long)
    attention_mask = torch.zeros(len(rows), length, dtype=torch.long)
    position_ids = torch.zeros(3, len(rows), length, dtype=torch.long)
    pooled = torch.zeros(len(rows), dtype=torch.long)
    for row, (ids, places) in enumerate(rows):
        start = length - len(ids) if padding == "left" else 0
        span = slice(start, start + len(ids))
        input_ids[row, span] = torch.tensor(ids)
        attention_mask[row, span] = 1
        position_ids[:, row, span] = places
        pooled[row] = start + len(ids) - 1
    return Batch(input_ids, attention_mask, position_ids, pooled, patches, grids, image_rows, padding == "left")
