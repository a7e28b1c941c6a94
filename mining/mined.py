"""What mining found out about each pair, and the files and counts that follow from that alone.

``outcomes.jsonl`` has a line a pair, ``verdicts.jsonl`` a line for each candidate that was looked at,
``examples.jsonl`` one for each pair kept. Parts of a stage, put together by position, give the files of one run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tilewright.configs.stage import Counts
from tilewright.data_gen.records import QAPair, TrainingExample, write_jsonl
from tilewright.data_gen.verdicts import Verdict
from tilewright.mining.mining_config import Config
from tilewright.mining.walk import ABOVE_MARGIN, DUPLICATE, KNOWN, NEGATIVES, PAGE_FULL, POSITIVES, SAME_PAGE, UNJUDGED

EXAMPLES, OUTCOMES, VERDICTS = "examples.jsonl", "outcomes.jsonl", "verdicts.jsonl"
KEPT, KEPT_SHORT, SHORT, ABSENT, ERROR = "kept", "kept_short", "too_few_negatives", "positive_absent", "error"


@dataclass(frozen=True)
class Looked:
    """A candidate that was looked at, in the order of the walk. ``position``: of the pair in the stage's input.

    ``rank``: among the candidates, 1 = best; ``outcome``: a verdict or a word of tilewright.mining.walk. ``answer``:
    what a model read on the tile alone; ``by``: the step that decided.
    """

    position: int
    query_id: str
    tile_id: str
    rank: int
    score: float
    outcome: str
    answer: str | None = None
    by: str = ""


@dataclass(frozen=True)
class PairOutcome:
    """What became of a pair: ``outcome`` is KEPT, KEPT_SHORT (with fewer negatives than asked) or why it was dropped.

    ``positive_rank``: of the positive, None beyond the candidates; ``positive_score`` as in ``Candidates``.
    """

    position: int
    query_id: str
    page_id: str
    outcome: str
    positive_rank: int | None
    positive_score: float | None


@dataclass(frozen=True)
class Rules:
    """The settings of ``Config``, by their names, that files and figures depend on besides what was found."""

    mode: str
    round: int
    top_k: int
    first_rank: int
    negatives: int
    per_page: int | None
    review_pairs: int
    seed: int

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Rules":
        """From a config's fields, or from the settings of a request."""
        return cls(**{entry.name: settings[entry.name] for entry in fields(cls)})


@dataclass(frozen=True)
class Mined:
    """A pair with what was found out about it; ``example`` is None if it was dropped."""

    pair: PairOutcome
    looked: tuple[Looked, ...]
    example: TrainingExample | None


def mined_of(position: int, pair: QAPair, entry: dict[str, Any] | None, config: Config) -> Mined:
    """From a pair and its journal ``entry`` (None: an error). See ``entry_of`` in mine_negatives."""
    if entry is None:
        return Mined(PairOutcome(position, pair.query_id, pair.page_id, ERROR, None, None), (), None)
    looked = tuple(Looked(position, pair.query_id, *row) for row in entry["looked"])
    negatives = tuple(one.tile_id for one in looked if one.outcome in NEGATIVES)
    outcome = KEPT
    if config.mode != "in_batch" and entry["positive_rank"] is None and config.absent_positive == "drop":
        outcome = ABSENT
    elif config.mode != "in_batch" and len(negatives) < config.negatives:
        outcome = SHORT if config.short == "drop" else KEPT_SHORT
    example = None
    if outcome in (KEPT, KEPT_SHORT):
        known = tuple(one.tile_id for one in looked if one.outcome in POSITIVES)
        known += tuple(tile_id for tile_id in entry["known"] if tile_id not in known)
        example = TrainingExample(pair.query_id, pair.query, pair.tile_id, negatives, known)
    found = PairOutcome(position, pair.query_id, pair.page_id, outcome, entry["positive_rank"], entry["positive_score"])
    return Mined(found, looked, example)


def write_mined(out: Path, mined: Sequence[Mined]) -> None:
    """Write the three files, in order of position."""
    write_jsonl(out / EXAMPLES, (one.example for one in mined if one.example is not None))
    write_jsonl(out / OUTCOMES, (one.pair for one in mined))
    write_jsonl(out / VERDICTS, (looked for one in mined for looked in one.looked))


def counts_of(mined: Sequence[Mined], rules: Rules) -> Counts:
    """Pairs, examples and candidates by what became of them."""
    pairs = Counter(one.pair.outcome for one in mined)
    outcomes = Counter(looked.outcome for one in mined for looked in one.looked)
    examples = [one.example for one in mined if one.example is not None]
    counts: Counts = {
        "mode": rules.mode,
        "round": rules.round,
        "pairs": len(mined),
        "dropped_error": pairs[ERROR],
        "examples": len(examples),
        "negatives": sum(len(example.negative_tile_ids) for example in examples),
        "known_positives": sum(len(example.known_positive_tile_ids) for example in examples),
    }
    if rules.mode == "in_batch":
        return counts
    searched = [one.pair for one in mined if one.pair.outcome != ERROR]
    ranks = Counter(rank_bin(pair.positive_rank, rules.top_k) for pair in searched)
    return counts | {
        "dropped_too_few_negatives": pairs[SHORT],
        "dropped_positive_absent": pairs[ABSENT],
        "kept_with_too_few_negatives": pairs[KEPT_SHORT],
        "positive_absent": sum(pair.positive_rank is None for pair in searched),
        "queries_without_candidate": _without_candidate(mined),
        "false_negatives_found": outcomes[Verdict.CORRECT.value],
        "copies_of_positive": outcomes[DUPLICATE],
        "known_from_earlier_round": outcomes[KNOWN],
        "skipped_same_page": outcomes[SAME_PAGE],
        "skipped_above_margin": outcomes[ABOVE_MARGIN],
        "skipped_page_full": outcomes[PAGE_FULL],
        "skipped_unparsed": outcomes[Verdict.UNPARSED.value],
        "verdicts": {verdict.value: outcomes[verdict.value] for verdict in Verdict if verdict != Verdict.UNPARSED},
        "not_judged": outcomes[UNJUDGED],
        "positive_rank": dict(sorted(ranks.items())),
    }


def _without_candidate(mined: Iterable[Mined]) -> int:
    passed = (DUPLICATE, KNOWN, SAME_PAGE, ABOVE_MARGIN)
    return sum(one.pair.outcome != ERROR and all(looked.outcome in passed for looked in one.looked) for one in mined)


def rank_bin(rank: int | None, depth: int) -> str:
    """Rank 1 and the ranges 2-3, 4-10, 11-K as words for the counts; ``not in top K`` for None."""
    if rank is None:
        return f"not in top {depth}"
    low, high = next((low, high) for low, high in ((1, 1), (2, 3), (4, 10), (11, max(depth, 11))) if rank <= high)
    return f"{low:02d}" if low == high else f"{low:02d}-{min(high, depth):02d}"
