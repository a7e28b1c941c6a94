"""The settings of mining: what is a candidate, what becomes of it, who judges."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.stage import execution, input_path
from tilewright.data_gen.llm import LlmSettings
from tilewright.data_gen.llm_judge import JudgePrompts
from tilewright.data_gen.parts import part_of

Mode = Literal["in_batch", "naive", "margin", "judged"]


@dataclass(frozen=True)
class Margin:
    """How far below its positive a negative has to score; one of the two.

    ``absolute`` m: score <= s(q, p) - m. ``relative`` r: score <= r * s(q, p), and where s(q, p) is negative, as far
    below it: s(q, p) - (1 - r) |s(q, p)| (Moreira et al. 2024, NV-Retriever, arXiv 2407.15831: 0.95).
    """

    absolute: float | None = None
    relative: float | None = None

    def __post_init__(self) -> None:
        if (self.absolute is None) == (self.relative is None):
            raise ValueError(
                f"margin: wanted one of absolute and relative, found absolute {self.absolute}, relative {self.relative}"
            )
        check_bounds(self, 0, 2, "absolute")
        check_bounds(self, 0, 1, "relative")

    def limit(self, positive_score: float) -> float:
        """The highest score of a negative."""
        if self.absolute is not None:
            return positive_score - self.absolute
        assert self.relative is not None
        return positive_score - (1 - self.relative) * abs(positive_score)


@dataclass(frozen=True)
class Config:
    """Mine negatives of ``pairs`` from ``index`` (made with ``checkpoint``) over ``tiles``.

    ``mode``: in_batch (no search, no negatives); naive (the nearest are the negatives); margin (the nearest that score
    below the positive by ``margin``); judged (those of which ``judge`` says that they don't answer the query).
    ``pages``: splits/pages.json: only tiles of its train pages are candidates, so that no held-out tile becomes a
    negative (null: all tiles). Candidates are the ``top_k`` nearest without the positive; those from ``first_rank`` on
    may become negatives, until there are ``negatives``, at most ``per_page`` of one page. A pair with fewer is kept or
    dropped by ``short``. ``same_page``: tiles of the positive's page are candidates like others (allow), are left out
    (forbid), or come before all others (prefer).

    A positive that isn't among the ``top_k``: judged and naive go on without it; margin takes its exact score, from its
    own vector; ``absent_positive: drop`` leaves such a pair out. All count it.

    ``judge``: grounded (offline, by DOM text) or openai: the two-step judge of ``llm``, which sees the tiles; it asks
    about up to ``width`` candidates of a query at a time, with the same result and some calls more. A pair whose call
    failed is an error, of which at most ``max_error_share`` of all pairs are allowed, counted as dropped; no larger
    share of the judged candidates may be without a verdict, as no reply about them could be read.
    ``round``: 1 for the base checkpoint, 2 for one trained on round 1, ...; ``previous``: examples.jsonl of an earlier
    round, whose known positives stay so without being judged again.

    ``block`` queries are encoded together. ``shard``: "i/n" does every n-th block; merge_negatives puts the parts
    together. ``review_pairs``: so many examples, drawn by ``seed``, are shown in review.html. ``device`` encodes the
    queries: auto takes the accelerator if there is one.
    """

    out: Path
    mode: Mode
    top_k: int
    negatives: int
    short: Literal["keep", "drop"]
    same_page: Literal["allow", "forbid", "prefer"]
    index: Path = input_path()
    checkpoint: Path = input_path()
    tiles: Path = input_path()
    pairs: Path = input_path()
    pages: Path | None = input_path()
    previous: Path | None = input_path(default=None)
    first_rank: int = 1
    per_page: int | None = None
    margin: Margin | None = None
    absent_positive: Literal["keep", "drop"] = "keep"
    judge: Literal["grounded", "openai"] = "grounded"
    llm: LlmSettings | None = None
    prompts: JudgePrompts = field(default=JudgePrompts())
    round: int = 1
    block: int = 64
    shard: str | None = None
    review_pairs: int = 0
    seed: int = 0
    width: int = execution(default=1)
    max_error_share: float = execution(default=0.01)
    device: str = "auto"

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "negatives", "block", "per_page", "first_rank", "round", "width")
        check_bounds(self, 0, None, "review_pairs")
        check_bounds(self, 0, 1, "max_error_share")
        if self.top_k < self.first_rank - 1 + self.negatives:
            raise ValueError(
                f"top_k: wanted at least negatives = {self.negatives} ranks from first_rank = {self.first_rank} on,"
                f" found {self.top_k}"
            )
        if (self.margin is None) == (self.mode == "margin"):
            raise ValueError(f"margin: wanted with mode margin and no other, found mode {self.mode}: {self.margin}")
        if (self.llm is None) == (self.judge == "openai"):
            raise ValueError(f"llm: wanted with judge openai and no other, found judge {self.judge}, llm {self.llm}")
        if self.judge == "openai" and self.mode != "judged":  # it would pay for verdicts that the mode doesn't want
            raise ValueError(f"judge: openai goes with mode judged, found mode {self.mode}: take judge grounded")
        if self.previous is not None and self.round == 1:
            raise ValueError("previous: wanted with round 2 or later, found round 1")
        part_of(self.shard)
