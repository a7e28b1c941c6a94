"""Stage: hard negatives of each training pair from the ranking of a given checkpoint.

The ranking is walked in order, the positive skipped by id. A judge looks at each candidate alone: CORRECT makes it a
known positive, WRONG or CANNOT_ANSWER a negative; an unparsed reply or a failed call is no verdict, so that candidate
becomes neither. The walk ends at ``negatives`` negatives (PixelRAG, arXiv 2606.28344: K = 20, M = 2).
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError, process_items
from tilewright.configs.stage import Counts, Inputs, Stage, StageError, execution, input_path, main
from tilewright.data_gen.llm import Client, LlmSettings, Session
from tilewright.data_gen.llm_judge import JudgePrompts, LlmJudge
from tilewright.data_gen.records import QAPair, TrainingExample, write_jsonl
from tilewright.data_gen.splits import pages_of_split
from tilewright.data_gen.tiles import page_of
from tilewright.data_gen.verdicts import Verdict
from tilewright.mining.candidates import (
    Candidates,
    Searcher,
    blocks_of,
    on_pages,
)
from tilewright.mining.judge import ERROR, JUDGES, Judge, outcome_of
from tilewright.mining.walk import DUPLICATE, SAME_PAGE, UNJUDGED, Walk, walk, walk_judged
from tilewright.train.split_files import read_pairs

Ranked = tuple[QAPair, Candidates]
Mined = Iterator[tuple[QAPair, dict[str, Any] | ItemError]]
NO_VERDICT = (Verdict.UNPARSED.value, ERROR)


@dataclass(frozen=True)
class Config:
    """Mine negatives of ``pairs`` from ``index`` (made with ``checkpoint``) over ``tiles``.

    ``mode``: judged; naive (no judge: the nearest are the negatives); in_batch (none). ``pages``: splits/pages.json:
    only tiles of its train pages are candidates, so that no held-out tile becomes a negative (null: all tiles).
    ``top_k`` candidates are walked until ``negatives`` are found; a pair with fewer is kept or dropped by ``short``.
    ``same_page: skip`` leaves out the positive's page. ``block`` queries are encoded together. More than
    ``max_error_share`` of a block's judgements without a verdict stop the stage.
    ``judge``: grounded (offline, by DOM text) or openai: the two-step judge of ``llm``, which sees the tiles; a pair
    whose call failed is an error, of which at most ``max_error_share`` of all pairs are allowed, counted as dropped.
    ``device`` encodes the queries: auto takes the accelerator if there is one.
    """

    out: Path
    mode: Literal["judged", "naive", "in_batch"]
    top_k: int
    negatives: int
    short: Literal["keep", "drop"]
    same_page: Literal["allow", "skip"]
    index: Path = input_path()
    checkpoint: Path = input_path()
    tiles: Path = input_path()
    pairs: Path = input_path()
    pages: Path | None = input_path()
    judge: Literal["grounded", "openai"] = "grounded"
    llm: LlmSettings | None = None
    prompts: JudgePrompts = field(default=JudgePrompts())
    block: int = 64
    max_error_share: float = execution(default=0.01)
    device: str = "auto"

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "negatives", "block")
        check_bounds(self, 0, 1, "max_error_share")
        if self.negatives > self.top_k:
            raise ValueError(f"top_k: wanted at least negatives = {self.negatives}, found {self.top_k}")
        if (self.llm is None) == (self.judge == "openai"):
            raise ValueError(f"llm: wanted with judge openai and no other, found judge {self.judge}, llm {self.llm}")
        if self.judge == "openai" and self.mode != "judged":  # it would pay for verdicts that the mode doesn't want
            raise ValueError(f"judge: openai goes with mode judged, found mode {self.mode}: take judge grounded")


def mine_negatives(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write examples.jsonl (TrainingExample, in the order of the pairs); counts by outcome and reason."""
    pairs = read_pairs(inputs["pairs"])
    if config.mode == "in_batch":
        examples = [TrainingExample(pair.query_id, pair.query, pair.tile_id, ()) for pair in pairs]
        return {"pairs": len(pairs), "examples": write_jsonl(out / "examples.jsonl", examples)}
    pages = pages_of_split(inputs["pages"], "train") if "pages" in inputs else None
    _check_pages(pairs, pages, inputs)
    searcher = Searcher.open(inputs["index"], inputs["checkpoint"], inputs["tiles"], config.device)
    searcher.check_positives(pairs, inputs["pairs"])
    with ExitStack() as stack:
        session = None if config.llm is None else stack.enter_context(Session(config.llm, out))
        mine = _miner(config, searcher, session)

        def work(todo: Sequence[QAPair]) -> Iterator[tuple[QAPair, dict[str, Any] | ItemError]]:
            unfinished = {pair.query_id for pair in todo}
            blocks: Iterator[list[Ranked]] = (
                [(pair, ranked) for pair, ranked in searched if pair.query_id in unfinished]
                for block in blocks_of(pairs, config.block, unfinished)
                for searched in [zip(block, searcher.search(block, config.top_k, on_pages(pages)), strict=True)]
            )
            if config.llm is not None and config.llm.dry_run:  # it ends with the first block: one block, then
                blocks = iter([list(itertools.chain.from_iterable(blocks))])
            for block in blocks:
                yield from mine(block)

        share = config.max_error_share if config.judge == "openai" else 0.0
        metrics = None if session is None else session.metrics
        found = process_items(
            "mine_negatives", pairs, lambda pair: pair.query_id, work, out, max_error_share=share, metrics=metrics
        )
    return _write(pairs, found, config, out)


def _miner(config: Config, searcher: Searcher, session: Session | None) -> Callable[[Sequence[Ranked]], Mined]:
    """What walks down the rankings of a block of pairs; with a ``session`` its model judges."""
    if session is not None:
        llm_judge = LlmJudge(config.prompts)

        async def look_down(client: Client, item: Ranked) -> dict[str, Any]:
            return _entry(item[1], await _mine_judged(client, llm_judge, *item, config, searcher))

        return lambda block: ((pair, value) for (pair, _), value in session.run(block, look_down))
    judge = JUDGES[config.judge]() if config.mode == "judged" else None

    def mine(block: Sequence[Ranked]) -> Mined:
        walks = [_mine(pair, candidates, config, searcher, judge) for pair, candidates in block]
        _check_judge(walks, config.max_error_share)
        return ((pair, _entry(found, walked)) for (pair, found), walked in zip(block, walks, strict=True))

    return mine


def _entry(candidates: Candidates, walked: Walk) -> dict[str, Any]:
    return {"positive_rank": candidates.positive_rank, "outcomes": walked.outcomes}


def _check_pages(pairs: Sequence[QAPair], pages: frozenset[str] | None, inputs: Inputs) -> None:
    stranger = next((pair for pair in pairs if pages is not None and page_of(pair.tile_id) not in pages), None)
    if stranger is not None:
        raise InputError(
            f"{inputs['pairs']}: {stranger.query_id}: page {stranger.page_id} is not a train page of"
            f" {inputs['pages']}: wanted the training pairs of that split"
        )


def _unseen(pair: QAPair, tile_id: str, config: Config, searcher: Searcher) -> str | None:
    """The outcome of a candidate that needs no judge; None for one that does."""
    tile = searcher.tile(tile_id)
    if tile.image_sha256 == searcher.tile(pair.tile_id).image_sha256:
        return DUPLICATE
    return SAME_PAGE if config.same_page == "skip" and tile.page_id == pair.page_id else None


def _mine(pair: QAPair, candidates: Candidates, config: Config, searcher: Searcher, judge: Judge | None) -> Walk:
    answers = (pair.answer, *pair.aliases)

    def look(tile_id: str) -> str:
        unseen = _unseen(pair, tile_id, config, searcher)
        if unseen is not None or judge is None:
            return unseen or UNJUDGED
        return outcome_of(judge, pair.query, answers, searcher.tile(tile_id))

    return walk(candidates.tile_ids, config.negatives, look)


async def _mine_judged(
    client: Client, judge: LlmJudge, pair: QAPair, candidates: Candidates, config: Config, searcher: Searcher
) -> Walk:
    answers = (pair.answer, *pair.aliases)

    async def look(tile_id: str) -> str:
        unseen = _unseen(pair, tile_id, config, searcher)
        if unseen is not None:
            return unseen
        return (await judge.look(client, pair.query, answers, searcher.pictured(tile_id))).verdict.value

    return await walk_judged(candidates.tile_ids, config.negatives, look)


def _check_judge(walks: Sequence[Walk], allowed_share: float) -> None:
    """Raises StageError if too many of a block's judgements gave no verdict; nothing of that block is journalled."""
    outcomes = Counter(outcome for walked in walks for _, outcome in walked.outcomes)
    judged = sum(count for outcome, count in outcomes.items() if outcome not in (DUPLICATE, SAME_PAGE, UNJUDGED))
    failed = sum(outcomes[outcome] for outcome in NO_VERDICT)
    if failed > allowed_share * judged:
        raise StageError(
            f"mine_negatives: {failed} of {judged} judgements gave no verdict ({dict(outcomes)}), allowed share"
            f" {allowed_share}. Finished queries are kept: mend the judge or raise max_error_share, then run again"
        )


def _write(pairs: Sequence[QAPair], found: dict[str, Any], config: Config, out: Path) -> Counts:
    examples, outcomes, positive_ranks, short = [], Counter[str](), Counter[str](), 0
    for pair in pairs:
        if pair.query_id not in found:
            continue
        entry = found[pair.query_id]
        positive_ranks[rank_bin(entry["positive_rank"], config.top_k)] += 1
        looked = dict(entry["outcomes"])
        outcomes.update(looked.values())
        walked = walk(list(looked), config.negatives, looked.__getitem__)
        if len(walked.negatives) < config.negatives:
            short += 1
            if config.short == "drop":
                continue
        examples.append(
            TrainingExample(pair.query_id, pair.query, pair.tile_id, walked.negatives, walked.known_positives)
        )
    return {
        "pairs": len(pairs),
        "dropped_error": len(pairs) - len(found),
        "examples": write_jsonl(out / "examples.jsonl", examples),
        "negatives": sum(len(example.negative_tile_ids) for example in examples),
        "dropped_too_few_negatives" if config.short == "drop" else "kept_with_too_few_negatives": short,
        "false_negatives_found": outcomes[Verdict.CORRECT.value],
        "copies_of_positive": outcomes[DUPLICATE],
        "skipped_same_page": outcomes[SAME_PAGE],
        "skipped_unparsed": outcomes[Verdict.UNPARSED.value],
        "skipped_judge_error": outcomes[ERROR],
        "verdicts": {verdict.value: outcomes[verdict.value] for verdict in Verdict if verdict != Verdict.UNPARSED},
        "not_judged": outcomes[UNJUDGED],
        "positive_rank": dict(sorted(positive_ranks.items())),
    }


def rank_bin(rank: int | None, depth: int) -> str:
    """Rank 1 and the ranges 2-3, 4-10, 11-K as words for the counts; ``not in top K`` for None."""
    if rank is None:
        return f"not in top {depth}"
    low, high = next((low, high) for low, high in ((1, 1), (2, 3), (4, 10), (11, max(depth, 11))) if rank <= high)
    return f"{low:02d}" if low == high else f"{low:02d}-{min(high, depth):02d}"


STAGE = Stage("mine_negatives", Config, mine_negatives, schema=1)

if __name__ == "__main__":
    main(STAGE)
