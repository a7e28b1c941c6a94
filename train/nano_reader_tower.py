"""Teach the eyes of a nano reader from answers alone, at low resolution.

A reader that was trained before finds, on the uncompressed tiles, where it read the answer: no label but the answer is
used. Around that place a piece of the tile is compressed and read with gradients, and the loss is -log of the sum,
over the spans that read as the answer, of

    P(span | question, piece) x P(the answer's letters | the cells of the span)

so that the words of the question near the answer, and the answer's own letters, teach the tower to read them.
"""

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tilewright.data_gen.tile_store import TileStore
from tilewright.train.adapters import LoraGroup, add_adapters, trainable
from tilewright.train.nano import CELLS, PATCH_PX, NanoModel, Reading
from tilewright.train.nano_characters import BOUNDARY, LETTER_OF, class_of
from tilewright.train.nano_data import padded, patches_of, shown_at
from tilewright.train.nano_reader import Shown, Span, SpanScorer, answer_loss, spans_of
from tilewright.train.nano_reader_features import Page, features, page_of_words
from tilewright.train.nano_reader_training import Row
from tilewright.train.nano_reader_words import TileWords, letter_probabilities, vectors_of
from tilewright.train.schedule import rate_share

Array = np.ndarray[Any, Any]
PIECE_ROWS, PIECE_COLUMNS = 8, 30  # patches of a piece: half a tile wide, some five lines
CONTEXT_SHARE = 0.5  # of what a cell names before and after its letter, beside the letter itself
FLOOR = 1e-6
KEPT_PIECES = 4096  # whose pixels are kept, of some 180 KB each


@dataclass(frozen=True, eq=False)
class Piece:
    """Part of tile ``tile_id`` as the uncompressed tile was read, from row ``top`` and column ``left`` of patches.

    ``page``: its words; ``places`` [M]: cells of their characters, row by row over the piece; ``owners`` [M]: words;
    ``spans``: of its words, that read as the answer; ``letters``: what is wanted of their cells, in the order of spans.
    """

    row: Row
    tile_id: str
    compression: float
    top: int
    left: int
    page: Page
    places: Tensor
    owners: Array
    spans: tuple[Span, ...]
    letters: tuple["Letters", ...]


@dataclass(frozen=True)
class Letters:
    """What a span's cells hold if they read as the answer: ``letter`` [L] at ``cells`` [L], ``before`` and ``after`` it
    in its word, and nothing in the cells ``empty`` between them."""

    cells: Tensor
    letter: Tensor
    before: Tensor
    after: Tensor
    empty: Tensor


@dataclass(frozen=True)
class TowerSettings:
    """``steps`` of ``batch_size`` pieces; AdamW with a cosine after ``warmup_steps``; LoRA ``groups`` of the nano."""

    steps: int
    batch_size: int
    learning_rate: float
    warmup_steps: int
    groups: dict[str, LoraGroup]


@torch.no_grad()
def piece_of(row: Row, scorer: SpanScorer) -> Piece | None:
    """The piece around the likeliest of the spans that read as the row's answer; None if there's none."""
    if not row.spans:
        return None
    scores = scorer(row.shown)
    best = max(row.spans, key=lambda span: float(scores.spans[span.tile, span.start, span.stop - span.start - 1]))
    page = row.shown.pages[best.tile]
    words = page.words
    members = page.layout.order[row.shown.places[best.tile][best.start : best.stop]]
    rows, patches = words.rows[members], words.left[members] // CELLS
    top = _corner(int(rows.min() + rows.max()) // 2, PIECE_ROWS, words.size[0])
    left = _corner(int(patches.min() + patches.max()) // 2, PIECE_COLUMNS, words.size[1] // CELLS)
    part, places, owners = _cut(words, top, left)
    cut = page_of_words(part)
    spans = tuple(spans_of(row.example.answer, [cut.lines]))
    if not spans:
        return None
    letters = tuple(_letters(span, cut) for span in spans)
    tile_id = row.example.tile_ids[best.tile]
    return Piece(row, tile_id, row.example.compression, top, left, cut, places, owners, spans, letters)


def _corner(middle: int, size: int, whole: int) -> int:
    return max(0, min(middle - size // 2, whole - size))


def _cut(words: TileWords, top: int, left: int) -> tuple[TileWords, Tensor, Array]:
    """The words that lie wholly in the piece, in its cells; and the cells and words of their characters."""
    first, last = left * CELLS, (left + PIECE_COLUMNS) * CELLS
    inside = (words.rows >= top) & (words.rows < top + PIECE_ROWS) & (words.left >= first) & (words.right < last)
    kept = np.flatnonzero(inside)
    lengths = np.array([len(words.texts[place]) for place in kept], dtype=np.int64)
    cells = [words.cells[words.ends[place] - len(words.texts[place]) : words.ends[place]] for place in kept]
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *cells]).astype(np.int64) - first
    part = TileWords(
        texts=tuple(words.texts[place] for place in kept),
        cells=columns,
        rows=words.rows[kept].astype(np.int64) - top,
        vectors=words.vectors[kept],
        sure=words.sure[kept],
        size=(PIECE_ROWS, PIECE_COLUMNS * CELLS),
    )
    owners = np.repeat(np.arange(len(kept)), lengths)
    return part, torch.from_numpy(part.rows[owners] * PIECE_COLUMNS * CELLS + columns), owners


def _letters(span: Span, page: Page) -> Letters:
    """What is wanted of the cells of a span; marks and what no letter stands in are boundaries."""
    words, width = page.words, PIECE_COLUMNS * CELLS
    cells, letters, firsts = [], [], []
    taken: dict[int, tuple[int, int]] = {}
    for place in page.layout.order[span.start : span.stop]:
        line = int(words.rows[place]) * width
        text = words.texts[place]
        found = words.cells[words.ends[place] - len(text) : words.ends[place]] + line
        cells.append(found)
        letters.append(LETTER_OF[[class_of(ord(character)) for character in text]])
        firsts.append(np.arange(len(text)) == 0)
        low, high = taken.get(line, (int(found[0]), int(found[-1])))
        taken[line] = (min(low, int(found[0])), max(high, int(found[-1])))
    places, wanted, first = np.concatenate(cells), np.concatenate(letters), np.concatenate(firsts)
    before = np.where(first, BOUNDARY, np.roll(wanted, 1))
    after = np.where(np.append(first[1:], True), BOUNDARY, np.roll(wanted, -1))
    within = np.concatenate([np.arange(low, high + 1) for low, high in taken.values()])
    held = wanted != BOUNDARY
    empty = np.setdiff1d(within, places[held])
    arrays = (places[held], wanted[held], before[held], after[held], empty)
    return Letters(*(torch.from_numpy(array.astype(np.int64)) for array in arrays))


def pixels_of_piece(piece: Piece, store: TileStore) -> Array:
    """uint8 [PIECE_ROWS x 16, PIECE_COLUMNS x 16, 3]: the piece of the tile at its compression, enlarged back."""
    whole = shown_at(store.image(piece.tile_id), piece.compression)
    top, left = piece.top * PATCH_PX, piece.left * PATCH_PX
    height, width = PIECE_ROWS * PATCH_PX, PIECE_COLUMNS * PATCH_PX
    return padded(whole[top : top + height, left : left + width], height, width)


def piece_loss(piece: Piece, reading: Reading, scorer: SpanScorer) -> Tensor:
    """-log P(answer | question, piece), with gradients into ``reading`` [rows, columns, CELLS, ...]."""
    letters, before, after = (
        letter_probabilities(logits.flatten(0, -2)) for logits in (reading.characters, reading.before, reading.after)
    )
    vectors, sure = vectors_of(
        letters[piece.places], before[piece.places], after[piece.places], piece.places, piece.owners, len(piece.page),
        PIECE_COLUMNS * CELLS,
    )  # fmt: skip
    order = torch.from_numpy(piece.page.layout.order)
    own = torch.cat([piece.page.own[:, :-1], sure[order, None].detach()], 1)
    page = dataclasses.replace(piece.page, vectors=vectors[order], own=own)
    asked = piece.row.shown.asked
    everything = np.arange(len(page))
    scores = scorer(Shown(asked, (page,), (everything,), tuple(features(asked, [page])), (page.lines,)))
    said = [_log_likelihood(wanted, letters, before, after) for wanted in piece.letters]
    return answer_loss(scores, piece.spans, torch.stack(said))


def _log_likelihood(wanted: Letters, letters: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """log P that the cells hold these letters, with these beside them, and nothing between."""
    own = _log(letters[wanted.cells, wanted.letter]).sum()
    around = _log(before[wanted.cells, wanted.before]).sum() + _log(after[wanted.cells, wanted.after]).sum()
    return own + CONTEXT_SHARE * around + _log(letters[wanted.empty, BOUNDARY]).sum()


def _log(probability: Tensor) -> Tensor:
    return probability.clamp_min(FLOOR).log()


def train_tower(
    model: NanoModel,
    scorer: SpanScorer,
    pieces: Sequence[Piece],
    store: TileStore,
    settings: TowerSettings,
    seed: int,
    after_step: Callable[[int, float], None],
) -> NanoModel:
    """The nano with LoRA trained on ``pieces`` and merged; ``after_step`` is told the step and its loss."""
    adapted: Any = add_adapters(model, settings.groups, seed=seed)
    weights = list(trainable(adapted).values())
    optimizer = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=0.0, betas=(0.9, 0.98))
    scorer.requires_grad_(False).eval()
    adapted.train()
    core = adapted.get_base_model()
    torch.manual_seed(seed)  # of the groups' dropout
    pixels_of = lru_cache(KEPT_PIECES)(lambda piece: pixels_of_piece(piece, store))
    for step, batch in enumerate(_batches(pieces, settings, seed)):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * rate_share(step, settings.steps, settings.warmup_steps)
        pixels = np.stack([pixels_of(piece) for piece in batch])
        reading = core.read(core.states(patches_of(torch.from_numpy(pixels))))
        parts = [Reading(*(getattr(reading, name)[i] for name in _HEADS)) for i in range(len(batch))]
        loss = torch.stack([piece_loss(piece, part, scorer) for piece, part in zip(batch, parts, strict=True)]).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        after_step(step, loss.item())
    scorer.requires_grad_(True)
    merged = adapted.merge_and_unload()
    merged.eval()
    return merged  # type: ignore[no-any-return]


_HEADS = ("characters", "before", "after", "starts")


def _batches(pieces: Sequence[Piece], settings: TowerSettings, seed: int) -> Iterator[list[Piece]]:
    """``steps`` batches, every epoch in an order of its own."""
    order: list[int] = []
    state = random.Random(f"{seed}/pieces")
    for _ in range(settings.steps):
        while len(order) < settings.batch_size:
            more = list(range(len(pieces)))
            state.shuffle(more)
            order += more
        yield [pieces[place] for place in order[: settings.batch_size]]
        del order[: settings.batch_size]
