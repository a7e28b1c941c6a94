"""A nano reader: it reads tiles word by word, and answers with the words read that a small network points at.

The network sees no letters: only how each word and its neighbourhood resemble the question, and what shape it has. So
an answer is as good as the reading of its letters, and a question without an answer on the tiles is told by what fails
to resemble it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tilewright.train.nano_reader_features import FEATURES, Array, Lines, Page, features, likeliest
from tilewright.train.nano_reader_question import KINDS, Asked
from tilewright.train.nano_reader_words import squashed

LIKELIEST = 256  # words of a tile
LONGEST = 12  # words of an answer
KERNEL = 5
DILATIONS = (1, 2, 4)
MANY_SPANS = 64  # of equal text, of which the rest is left out


@dataclass(frozen=True)
class Shown:
    """A question and the tiles that it is asked about: of each its likeliest words, ``places`` in the page's reading
    order, their features [N, F] and what they say. A span stays in a block."""

    asked: Asked
    pages: tuple[Page, ...]
    places: tuple[Array, ...]
    features: tuple[Tensor, ...]
    lines: tuple[Lines, ...]


def shown(question: Asked, pages: Sequence[Page], count: int = LIKELIEST) -> Shown:
    """``question`` about ``pages``, in the order shown; of each some ``count`` words are looked at closely."""
    found = features(question, pages)
    places = [likeliest(page, part.detach(), count) for page, part in zip(pages, found, strict=True)]
    return Shown(
        asked=question,
        pages=tuple(pages),
        places=tuple(places),
        features=tuple(part[torch.from_numpy(kept)] for part, kept in zip(found, places, strict=True)),
        lines=tuple(page.lines.only(kept) for page, kept in zip(pages, places, strict=True)),
    )


@dataclass(frozen=True)
class Span:
    """Words ``start`` to ``stop`` (exclusive) of the lines looked at of tile number ``tile``."""

    tile: int
    start: int
    stop: int


@dataclass(frozen=True)
class Scores:
    """Logits of all spans of a question's tiles, [T, N, LONGEST] by first word and length - 1 (-inf where there's
    none), and of there being no answer, ``none`` []."""

    spans: Tensor
    none: Tensor

    def log_total(self) -> Tensor:
        """log of the sum over all that can be said."""
        return torch.logsumexp(torch.cat([self.spans.flatten(), self.none[None]]), 0)


class SpanScorer(nn.Module):
    """Points at spans: convolutions in reading order over features of words, then a score for first word, last word,
    words within and length. ``none_bias`` is added to the logit of there being no answer."""

    mean: Tensor
    scale: Tensor
    none_bias: Tensor

    def __init__(self, width: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        self.width = width
        self.enter = nn.Linear(FEATURES, width)
        self.layers = nn.ModuleList(
            nn.Conv1d(width, width, KERNEL, padding=dilation * (KERNEL // 2), dilation=dilation)
            for dilation in DILATIONS
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in DILATIONS)
        self.dropout = nn.Dropout(dropout)
        self.ends = nn.Linear(width, 3)
        self.length = nn.Parameter(torch.zeros(LONGEST))
        self.length_of_kind = nn.Linear(len(KINDS), LONGEST, bias=False)
        self.none = nn.Sequential(nn.Linear(2 * FEATURES + width, width), nn.GELU(), nn.Linear(width, 1))
        self.register_buffer("mean", torch.zeros(FEATURES))
        self.register_buffer("scale", torch.ones(FEATURES))
        self.register_buffer("none_bias", torch.zeros(()))

    def forward(self, row: Shown) -> Scores:
        """Scores of all spans, and of none."""
        known = [(part - self.mean) / self.scale for part in row.features]
        longest = max([len(part) for part in known], default=0)
        if not longest:
            return Scores(torch.full((0, 0, LONGEST), -torch.inf), self.none_bias)
        words = torch.stack([F.pad(part, (0, 0, 0, longest - len(part))) for part in known])  # [T, N, F]
        inside = torch.stack([torch.arange(longest) < len(part) for part in known])  # [T, N]
        hidden = F.gelu(self.enter(words)) * inside[..., None]
        for layer, norm in zip(self.layers, self.norms, strict=True):
            more = F.gelu(layer(norm(hidden).transpose(1, 2)).transpose(1, 2))
            hidden = (hidden + self.dropout(more)) * inside[..., None]
        spans = self._spans(hidden, row)
        everything = torch.cat(known)
        pooled = torch.cat([everything.max(0).values, everything.mean(0), hidden.flatten(0, 1).max(0).values])
        return Scores(spans, self.none(pooled)[0] + self.none_bias)

    def _spans(self, hidden: Tensor, row: Shown) -> Tensor:
        first, last, within = self.ends(hidden).unbind(-1)  # [T, N]
        count = first.shape[1]
        sums = F.pad(within.cumsum(1), (1, 0))
        length = self.length + self.length_of_kind(row.asked.kinds)
        stops = torch.arange(count)[:, None] + torch.arange(LONGEST)  # [N, LONGEST], the last word
        near = stops.clamp(max=count - 1)
        scores: Tensor = first[:, :, None] + last[:, near] + sums[:, near + 1] - sums[:, :count, None] + length
        return scores.masked_fill(~allowed(row.lines, count), -torch.inf)


def allowed(lines: Sequence[Lines], count: int) -> Tensor:
    """[T, count, LONGEST] bool: spans that end on their tile, within their block."""
    marks = []
    for page in lines:
        block = torch.full((count + LONGEST,), -1, dtype=torch.long)
        block[: len(page)] = torch.from_numpy(page.block)
        ends = block[torch.arange(count)[:, None] + torch.arange(LONGEST)]
        marks.append((ends == block[:count, None]) & (block[:count, None] >= 0))
    return torch.stack(marks)


def spans_of(answer: str, lines: Sequence[Lines]) -> list[Span]:
    """Spans whose letters and digits are those of ``answer``, at most MANY_SPANS; empty for one without any."""
    wanted = squashed(answer)
    found: list[Span] = []
    for number, page in enumerate(lines):
        found += [Span(number, *place) for place in _places(wanted, page)] if wanted else []
    return found[:MANY_SPANS]


def _places(wanted: str, page: Lines) -> list[tuple[int, int]]:
    blocks, places = page.block, []
    for start, text in enumerate(page.squashed):
        if not text or not wanted.startswith(text[: len(wanted)]):
            continue
        said, stop = "", start
        while len(said) < len(wanted) and stop < len(page) and stop < start + LONGEST and blocks[stop] == blocks[start]:
            said += page.squashed[stop]
            stop += 1
        if said == wanted:
            places.append((start, stop))
    return places


def text_of(span: Span, lines: Sequence[Lines]) -> str:
    """What stands there, as read."""
    return " ".join(lines[span.tile].texts[span.start : span.stop])


def best_span(scores: Scores) -> Span | None:
    """The likeliest span, or None where none is likelier than any."""
    if not scores.spans.numel():
        return None
    flat = scores.spans.flatten()
    place = int(flat.argmax())
    if flat[place] <= scores.none:
        return None
    tile, rest = divmod(place, scores.spans.shape[1] * LONGEST)
    start, length = divmod(rest, LONGEST)
    return Span(tile, start, start + length + 1)


def answer_loss(scores: Scores, spans: Sequence[Span], log_likelihoods: Tensor | None = None) -> Tensor:
    """-log of the probability of the answer: of all ``spans`` that read as it, or, without any, of no answer.

    ``log_likelihoods`` [spans]: how likely each says the answer, where that isn't sure.
    """
    if not spans:
        return scores.log_total() - scores.none
    found = torch.stack([scores.spans[span.tile, span.start, span.stop - span.start - 1] for span in spans])
    if log_likelihoods is not None:
        found = found + log_likelihoods
    return scores.log_total() - torch.logsumexp(found, 0)
