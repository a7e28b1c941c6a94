"""Stage: what a reader learns from: each question with k retrieved tiles of its split's pages, the gold one among them.

The tiles are the nearest of a given checkpoint's index, in an order that depends on the ids alone, so that the gold
tile's position is uniform. Every choice of a row (k, gold shown or not, compression, order) comes from a digest of
the seed and the row's own ids.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, TypeVar

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError, process_items
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.records import QAPair, ReaderExample, TrainingExample, read_jsonl, write_jsonl
from tilewright.data_gen.splits import pages_of_split
from tilewright.data_gen.verdicts import Verdict
from tilewright.mining.candidates import Candidates, Searcher, blocks_of
from tilewright.mining.judge import JUDGES, Judge, outcome_of
from tilewright.mining.mined import rank_bin
from tilewright.mining.reader_report import report_of
from tilewright.train.pixels import MIN_PIXELS, PixelPolicy
from tilewright.train.reader_prompt import CANNOT_ANSWER
from tilewright.train.split_files import read_pairs

T = TypeVar("T")
SPLITS = ("train", "validation")
REPORT = "report.json"
READER_MAX_PIXELS = 16_777_216  # what Qwen3-VL-4B-Instruct's image processor has
COPY, KNOWN = "COPY_OF_GOLD", "KNOWN_POSITIVE"
SHOWN = frozenset({Verdict.WRONG.value, Verdict.CANNOT_ANSWER.value, "UNJUDGED"})


@dataclass(frozen=True)
class Config:
    """Reader rows of ``pairs`` (training) and ``validation``, with tiles from ``index`` (made with ``checkpoint``).

    ``pages``: splits/pages.json; a row shows tiles of its own split's pages only. ``negatives``: examples.jsonl of
    mine_negatives, whose known positives are never distractors; ``judge`` looks at the other distractors (``none``
    trusts the index). ``k_weights``: relative frequency of k = 1, 2, ... tiles. ``absent_share`` of the rows don't
    show the gold tile and have the answer ``absent_answer``. ``compressions``: one (fixed), or several of which one is
    drawn for each row (mixed; ``compression_weights``: their relative frequencies, null: equal). ``depth`` candidates
    are searched. ``max_pixels``: of the reader's image processor, for the report's token counts. ``max_train``,
    ``max_validation``: how many pairs, drawn by digest (null: all).
    ``device`` encodes the queries: auto takes the accelerator if there is one.
    """

    out: Path
    k_weights: tuple[float, ...]
    absent_share: float
    compressions: tuple[float, ...]
    max_train: int | None
    max_validation: int | None
    seed: int
    index: Path = input_path()
    checkpoint: Path = input_path()
    tiles: Path = input_path()
    pairs: Path = input_path()
    validation: Path = input_path()
    negatives: Path = input_path()
    pages: Path = input_path()
    compression_weights: tuple[float, ...] | None = None
    max_pixels: int = READER_MAX_PIXELS
    absent_answer: str = CANNOT_ANSWER
    judge: Literal["grounded", "none"] = "grounded"
    depth: int = 20
    block: int = 64
    device: str = "auto"

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "block", "depth", "max_train", "max_pixels")
        check_bounds(self, 0, None, "max_validation")
        check_bounds(self, 0, 1, "absent_share")
        if not self.absent_answer.strip():
            raise ValueError(f"absent_answer: wanted words, found {self.absent_answer!r}")
        if not self.k_weights or min(self.k_weights) < 0 or sum(self.k_weights) <= 0:
            raise ValueError(f"k_weights: wanted weights >= 0 of k = 1, 2, ..., found {self.k_weights}")
        if len(self.k_weights) > self.depth:
            raise ValueError(f"depth: wanted at least k = {len(self.k_weights)} candidates, found {self.depth}")
        if not self.compressions or min(self.compressions) < 1:
            raise ValueError(f"compressions: wanted factors >= 1, found {self.compressions}")
        weights = self.weights_of_compressions
        if len(weights) != len(self.compressions) or min(weights) < 0 or sum(weights) <= 0:
            raise ValueError(
                f"compression_weights: wanted weights >= 0 of {len(self.compressions)} compressions, found {weights}"
            )

    @property
    def weights_of_compressions(self) -> tuple[float, ...]:
        """Relative frequency of each of ``compressions``."""
        return self.compression_weights or (1.0,) * len(self.compressions)


@dataclass(frozen=True)
class Row:
    """The choices of one row before its tiles are known."""

    k: int
    gold_absent: bool
    compression: float


def fraction(*parts: object) -> float:
    """A number in [0, 1) that depends on ``parts`` alone (SHA-256), uniform over different parts."""
    digest = hashlib.sha256("\x1f".join(str(part) for part in parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def draw(options: Sequence[T], weights: Sequence[float], at: float) -> T:
    """The option whose share of the weights holds ``at`` in [0, 1)."""
    edges = list(accumulate(weights))
    return next(option for option, edge in zip(options, edges, strict=True) if at * edges[-1] < edge)


def choose(query_id: str, config: Config) -> Row:
    """k, gold shown or not, and compression of one row, from its digest."""
    sizes = range(1, len(config.k_weights) + 1)
    return Row(
        k=draw(sizes, config.k_weights, fraction(config.seed, "k", query_id)),
        gold_absent=fraction(config.seed, "absent", query_id) < config.absent_share,
        compression=draw(config.compressions, config.weights_of_compressions, fraction(config.seed, "c", query_id)),
    )


def assemble(
    pair: QAPair, row: Row, distractors: Sequence[str], config: Config, gold_rank: int | None = None
) -> ReaderExample | None:
    """The row's example from its ``distractors`` (best first); None if there's no tile to show."""
    chosen = list(distractors[: row.k]) if row.gold_absent else [pair.tile_id, *distractors[: row.k - 1]]
    if not chosen:
        return None
    order = sorted(chosen, key=lambda tile_id: fraction(config.seed, "order", pair.query_id, tile_id))
    return ReaderExample(
        query_id=pair.query_id,
        query=pair.query,
        answer=config.absent_answer if row.gold_absent else pair.answer,
        tile_ids=tuple(order),
        gold_position=None if row.gold_absent else order.index(pair.tile_id),
        compression=row.compression,
        gold_rank=gold_rank,
    )


def pick_distractors(
    ranked: Sequence[str], wanted: int, look: Callable[[str], str]
) -> tuple[list[str], list[tuple[str, str]]]:
    """The first ``wanted`` tiles of ``ranked`` that ``look`` finds unable to answer; and (tile_id, why) of the others.

    A tile without a verdict (unparsed, failed call) may hold the answer, so it isn't shown.
    """
    distractors: list[str] = []
    passed: list[tuple[str, str]] = []
    for tile_id in ranked:
        if len(distractors) == wanted:
            break
        outcome = look(tile_id)
        if outcome in SHOWN:
            distractors.append(tile_id)
        else:
            passed.append((tile_id, outcome))
    return distractors, passed


def make_reader_data(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write train.jsonl and validation.jsonl (ReaderExample), and report.json; counts by split and reason."""
    pairs = {
        "train": _sample(read_pairs(inputs["pairs"]), config.max_train, config.seed),
        "validation": _sample(read_pairs(inputs["validation"], may_be_empty=True), config.max_validation, config.seed),
    }
    pages = {split: pages_of_split(inputs["pages"], split) for split in SPLITS}
    _check_splits(pairs, pages, inputs)
    searcher = Searcher.open(inputs["index"], inputs["checkpoint"], inputs["tiles"], config.device)
    for split, path in zip(SPLITS, (inputs["pairs"], inputs["validation"]), strict=True):
        searcher.check_positives(pairs[split], path)
    known = {
        example.query_id: frozenset(example.known_positive_tile_ids)
        for example in read_jsonl(inputs["negatives"], TrainingExample)
    }
    judge = JUDGES[config.judge]() if config.judge != "none" else None

    def work(todo: Sequence[QAPair]) -> Iterator[tuple[QAPair, dict[str, Any] | ItemError]]:
        unfinished = {pair.query_id for pair in todo}
        for split in SPLITS:
            for block in blocks_of(pairs[split], config.block, unfinished):
                rankings = searcher.search(block, config.depth, pages[split])
                for pair, candidates in zip(block, rankings, strict=True):
                    if pair.query_id in unfinished:
                        hidden = known.get(pair.query_id, frozenset())
                        yield pair, _distractors(pair, candidates, hidden, config, searcher, judge)

    everything = [pair for split in SPLITS for pair in pairs[split]]
    found = process_items("make_reader_data", everything, lambda pair: pair.query_id, work, out)
    made = {split: _examples(pairs[split], found, config) for split in SPLITS}
    policy = PixelPolicy(MIN_PIXELS, config.max_pixels)
    report: dict[str, Any] = {"compression_per_row": "fixed" if len(config.compressions) == 1 else "mixed"}
    counts: Counts = {}
    for split, (examples, of_split) in made.items():
        counts[f"{split}_examples"] = write_jsonl(out / f"{split}.jsonl", examples)
        counts[split] = of_split
        report[split] = report_of(examples, searcher.store.size_px, policy)
    (out / REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return counts


def _sample(pairs: list[QAPair], limit: int | None, seed: int) -> list[QAPair]:
    if limit is None or len(pairs) <= limit:
        return pairs
    kept = {pair.query_id for pair in sorted(pairs, key=lambda pair: fraction(seed, "row", pair.query_id))[:limit]}
    return [pair for pair in pairs if pair.query_id in kept]


def _check_splits(pairs: dict[str, list[QAPair]], pages: dict[str, frozenset[str]], inputs: Inputs) -> None:
    twice = {pair.query_id for pair in pairs["train"]} & {pair.query_id for pair in pairs["validation"]}
    if twice:  # a row's tiles are remembered by its query
        raise InputError(f"{inputs['validation']}: query_id {min(twice)!r} stands in {inputs['pairs']} too")
    both = pages["train"] & pages["validation"]
    if both:
        raise InputError(f"{inputs['pages']}: {len(both)} pages are in train and validation (first: {min(both)})")
    for split in SPLITS:
        for pair in pairs[split]:
            if pair.page_id not in pages[split]:
                raise InputError(f"{pair.query_id}: page {pair.page_id} is no {split} page of {inputs['pages']}")


def _distractors(
    pair: QAPair,
    candidates: Candidates,
    known: frozenset[str],
    config: Config,
    searcher: Searcher,
    judge: Judge | None,
) -> dict[str, Any]:
    answers = (pair.answer, *pair.aliases)
    gold_image = searcher.tile(pair.tile_id).image_sha256

    def look(tile_id: str) -> str:
        tile = searcher.tile(tile_id)
        if tile.image_sha256 == gold_image:
            return COPY
        if tile_id in known:
            return KNOWN
        return "UNJUDGED" if judge is None else outcome_of(judge, pair.query, answers, tile)

    row = choose(pair.query_id, config)
    wanted = row.k if row.gold_absent else row.k - 1
    distractors, passed = pick_distractors(candidates.tile_ids, wanted, look)
    return {"distractors": distractors, "passed": passed, "positive_rank": candidates.positive_rank}


def _examples(
    pairs: Sequence[QAPair], found: dict[str, Any], config: Config
) -> tuple[list[ReaderExample], dict[str, Any]]:
    """The rows of one split; and what is to be counted of them."""
    examples, passed, ranks, dropped, short, added = [], Counter[str](), Counter[str](), 0, 0, 0
    for pair in pairs:
        entry, row = found[pair.query_id], choose(pair.query_id, config)
        passed.update(reason for _, reason in entry["passed"])
        ranks[rank_bin(entry["positive_rank"], config.depth)] += 1
        example = assemble(pair, row, entry["distractors"], config, entry["positive_rank"])
        if example is None:
            dropped += 1
            continue
        examples.append(example)
        short += len(example.tile_ids) < row.k
        added += not row.gold_absent and (entry["positive_rank"] is None or entry["positive_rank"] > row.k)
    return examples, {
        "pairs": len(pairs),
        "examples": len(examples),
        "gold_absent": sum(example.gold_position is None for example in examples),
        "gold_added": added,
        "fewer_tiles_than_k": short,
        "dropped_no_tile_to_show": dropped,
        "distractors_passed_over": dict(sorted(passed.items())),
        "natural_rank_of_gold": dict(sorted(ranks.items())),
    }


STAGE = Stage("make_reader_data", Config, make_reader_data, schema=2)

if __name__ == "__main__":
    main(STAGE)
