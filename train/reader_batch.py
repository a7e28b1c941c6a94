"""Prompts, answers and images to a model's inputs: one padded batch, for training and for answering alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from tilewright.data_gen.records import ReaderExample
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.compress import compress
from tilewright.train.pixels import PixelPolicy, patchify, policy_tokens
from tilewright.train.reader_prompt import ReaderPrompt

IGNORED = -100  # a label that no loss counts


@dataclass(frozen=True)
class ReaderInput:
    """One question with its images (already compressed); ``answer`` is given in training only."""

    query: str
    images: tuple[Image.Image, ...]
    answer: str | None = None


def visual_tokens_of(images: Sequence[Image.Image], policy: PixelPolicy) -> list[int]:
    """Visual tokens of each image in the final grid."""
    return [policy_tokens(*image.size, policy) for image in images]


def build_batch(rows: Sequence[ReaderInput], prompt: ReaderPrompt, policy: PixelPolicy) -> dict[str, Any]:
    """Model inputs of B rows, left-padded to L tokens.

    ``input_ids``, ``attention_mask``, ``mm_token_type_ids`` [B, L] (1 = image token); ``patches`` uint8 [N, 3·p·p] and
    ``image_grid_thw`` [images, 3], if there are images. With answers also ``labels`` [B, L], IGNORED everywhere but on
    answers (end of turn included), and ``logits_to_keep``: how many last positions predict or hold a label.
    """
    prompts = [prompt.prompt(row.query, visual_tokens_of(row.images, policy)) for row in rows]
    answers = [prompt.answer(row.answer) if row.answer is not None else [] for row in rows]
    length = max(len(ids) + len(answer) for ids, answer in zip(prompts, answers, strict=True))
    input_ids = torch.full((len(rows), length), prompt.pad_id)
    attention_mask = torch.zeros(len(rows), length, dtype=torch.long)
    labels = torch.full((len(rows), length), IGNORED)
    for i, (ids, answer) in enumerate(zip(prompts, answers, strict=True)):
        start = length - len(ids) - len(answer)
        input_ids[i, start:] = torch.tensor(ids + answer)
        attention_mask[i, start:] = 1
        if answer:
            labels[i, length - len(answer) :] = torch.tensor(answer)
    batch: dict[str, Any] = {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "mm_token_type_ids": (input_ids == prompt.image_token_id).long(),
    }
    images = [image for row in rows for image in row.images]
    if images:
        batch["patches"], batch["image_grid_thw"] = patchify(images, policy)
    if any(answers):
        batch["labels"] = labels
        batch["logits_to_keep"] = max(len(answer) for answer in answers) + 1
    return batch


def answer_loss(logits: Tensor, labels: Tensor, num_items: Tensor | int | None = None) -> Tensor:
    """Cross-entropy of answer tokens in fp32; logits [B, n, V] of the last n positions, labels [B, L].

    Position i predicts label i + 1. Summed and divided by ``num_items`` (all answer tokens of the global batch), by
    default by the answer tokens given here.
    """
    kept = labels[:, -logits.shape[1] :]
    targets = kept[:, 1:].reshape(-1)
    scores = logits[:, :-1].reshape(-1, logits.shape[-1]).float()
    total = torch.nn.functional.cross_entropy(scores, targets, ignore_index=IGNORED, reduction="sum")
    return total / (targets.ne(IGNORED).sum() if num_items is None else num_items)


class ReaderCollator:
    """ReaderExamples to a training batch: tiles decoded, compressed, patchified and put behind the prompt."""

    def __init__(self, store: TileStore, prompt: ReaderPrompt, policy: PixelPolicy) -> None:
        self.store, self.prompt, self.policy = store, prompt, policy

    def __call__(self, examples: Sequence[ReaderExample]) -> dict[str, Any]:
        return build_batch([self.row(example) for example in examples], self.prompt, self.policy)

    def row(self, example: ReaderExample) -> ReaderInput:
        """The example's compressed images in the order shown, its question and its answer."""
        images = tuple(compress(self.store.image(tile_id), example.compression) for tile_id in example.tile_ids)
        return ReaderInput(example.query, images, example.answer)
