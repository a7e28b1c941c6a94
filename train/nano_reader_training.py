"""Teach a span scorer from answers alone: rows are read, the answer's letters are looked for, all places count."""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from tilewright.data_gen.answers import exact_match
from tilewright.data_gen.records import ReaderExample
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of
from tilewright.train.compress import compress
from tilewright.train.nano_reader import Shown, Span, SpanScorer, answer_loss, best_span, shown, spans_of, text_of
from tilewright.train.nano_reader_features import FEATURES, Page
from tilewright.train.nano_reader_question import asked
from tilewright.train.nano_reader_readings import Readings
from tilewright.train.schedule import rate_share


@dataclass(frozen=True)
class Row:
    """A row of reader data as it is read; ``spans``: where the answer's letters stand; none if the gold is absent.

    ``usable``: whether something can be learnt from it: the answer stands somewhere, or is that there's none.
    """

    example: ReaderExample
    shown: Shown
    spans: tuple[Span, ...]

    @property
    def absent(self) -> bool:
        """Whether the gold tile isn't shown."""
        return self.example.gold_position is None

    @property
    def usable(self) -> bool:
        return self.absent or bool(self.spans)


@dataclass(frozen=True)
class Settings:
    """``epochs`` over the rows, in batches of ``batch_size``; AdamW with a cosine after ``warmup_steps``."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    warmup_steps: int
    seed: int


def row_of(example: ReaderExample, store: TileStore, readings: Readings, compression: float | None) -> Row:
    """``example`` read at ``compression`` (None: its own)."""
    factor = example.compression if compression is None else compression

    def page(tile_id: str) -> Page:
        digest = store.image_digest(tile_id)
        return readings.page(digest, factor, lambda: compress(store.image(tile_id), factor))

    pages = [page(tile_id) for tile_id in example.tile_ids]
    seen = shown(asked(example.query), pages)
    return Row(example, seen, () if example.gold_position is None else tuple(spans_of(example.answer, seen.lines)))


def is_held_out(example: ReaderExample, share: float, seed: int) -> bool:
    """Whether a row's question is kept for choices: by its page, so that no page has questions on both sides; a row
    without its gold tile doesn't name its page and goes by its question."""
    page = example.query_id if example.gold_position is None else page_of(example.tile_ids[example.gold_position])
    return random.Random(f"{seed}/held out/{page}").random() < share


def normalise(scorer: SpanScorer, rows: Sequence[Row]) -> None:
    """Mean and spread of each feature over the rows' words; two words at least, else the scorer stays as it is."""
    words = torch.cat([torch.zeros(0, FEATURES), *(part for row in rows for part in row.shown.features)])
    if len(words) > 1:
        scorer.mean.copy_(words.mean(0))
        scorer.scale.copy_(words.std(0).clamp_min(0.05))


def train_scorer(
    scorer: SpanScorer,
    rows: Sequence[Row],
    settings: Settings,
    after_epoch: Callable[[int, float], None],
) -> None:
    """Update ``scorer`` in place; ``after_epoch`` is told the epoch and its mean loss."""
    optimizer = torch.optim.AdamW(scorer.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    per_epoch = -(-len(rows) // settings.batch_size)
    steps, step = per_epoch * settings.epochs, 0
    torch.manual_seed(settings.seed)
    for epoch in range(settings.epochs):
        total = 0.0
        scorer.train()
        for batch in _batches(rows, settings, epoch):
            share = rate_share(step, steps, min(settings.warmup_steps, steps), 0.0, "cosine")
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * share
            losses = [answer_loss(scorer(row.shown), row.spans) for row in batch]
            loss = torch.stack(losses).mean()
            if loss.requires_grad:  # not where no word was read in the whole batch
                loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(scorer.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item() * len(batch)
            step += 1
        scorer.eval()
        after_epoch(epoch, total / len(rows))


def _batches(rows: Sequence[Row], settings: Settings, epoch: int) -> Iterator[list[Row]]:
    order = list(range(len(rows)))
    random.Random(f"{settings.seed}/epoch/{epoch}").shuffle(order)
    for start in range(0, len(order), settings.batch_size):
        yield [rows[place] for place in order[start : start + settings.batch_size]]


@dataclass(frozen=True)
class Figures:
    """Of rows: ``exact`` matches among ``shown`` (gold on a tile), of which ``readable`` had the answer's letters
    somewhere; ``silent``: said there's none; of ``absent`` rows ``abstained``."""

    shown: int
    exact: int
    readable: int
    silent: int
    absent: int
    abstained: int

    @property
    def right(self) -> float:
        """The share of all rows that were answered right: the answer, or that there's none."""
        return (self.exact + self.abstained) / max(1, self.shown + self.absent)

    def as_dict(self) -> dict[str, float]:
        """Shares and counts."""
        return {
            "exact": round(self.exact / max(1, self.shown), 4),
            "readable": round(self.readable / max(1, self.shown), 4),
            "silent": round(self.silent / max(1, self.shown), 4),
            "abstained": round(self.abstained / max(1, self.absent), 4),
            "n_shown": self.shown,
            "n_absent": self.absent,
        }


@torch.no_grad()
def figures_of(scorer: SpanScorer, rows: Sequence[Row]) -> Figures:
    """How ``scorer`` answers ``rows``."""
    said = [best_span(scorer(row.shown)) for row in rows]
    gold = [(row, span) for row, span in zip(rows, said, strict=True) if not row.absent]
    absent = [span for row, span in zip(rows, said, strict=True) if row.absent]
    return Figures(
        shown=len(gold),
        exact=sum(
            span is not None and exact_match(text_of(span, row.shown.lines), row.example.answer) for row, span in gold
        ),
        readable=sum(bool(row.spans) for row, _ in gold),
        silent=sum(span is None for _, span in gold),
        absent=len(absent),
        abstained=sum(span is None for span in absent),
    )


def copy_of(scorer: SpanScorer) -> dict[str, torch.Tensor]:
    """Its weights, apart from later updates."""
    return copy.deepcopy(scorer.state_dict())
