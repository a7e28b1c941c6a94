"""Stage: hard negatives of each training pair from the ranking of a given checkpoint.

The ranking is walked in order, the positive skipped by id. A judge looks at each candidate alone: CORRECT makes it a
known positive, WRONG or CANNOT_ANSWER a negative; an unparsed reply or a failed call is no verdict, so that candidate
becomes neither. The walk ends at ``negatives`` negatives (PixelRAG, arXiv 2606.28344: K = 20, M = 2).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError, process_items
from tilewright.configs.stage import Counts, Inputs, Stage, StageError, main
from tilewright.data_gen.llm import Client, Session
from tilewright.data_gen.llm_judge import LlmJudge, Look
from tilewright.data_gen.parts import part_of
from tilewright.data_gen.records import QAPair, TrainingExample, read_jsonl
from tilewright.data_gen.splits import pages_of_split
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of
from tilewright.data_gen.verdicts import Verdict
from tilewright.mining.candidates import Candidates, Searcher, blocks_of
from tilewright.mining.embed_blocks import prefetch
from tilewright.mining.judge import JUDGES, Judge
from tilewright.mining.mined import Rules, mined_of
from tilewright.mining.mining_config import Config as Config
from tilewright.mining.mining_report import JUDGED, show, write_cost, write_results
from tilewright.mining.modes import route_of
from tilewright.mining.walk import Walk, walk, walk_ahead
from tilewright.train.split_files import read_pairs

Entry = dict[str, Any]
Ranked = tuple[QAPair, Candidates]
Found = Iterator[tuple[QAPair, Entry | ItemError]]


def mine_negatives(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write examples.jsonl (TrainingExample, in the order of the pairs), outcomes.jsonl, verdicts.jsonl, report.json
    and, if wanted, review.html; counts by outcome and reason.

    Raises InputError for pairs of other pages than ``pages`` or tiles than the index, StageError for a failed search
    and for too many candidates without a verdict.
    """
    pairs = read_pairs(inputs["pairs"])
    pages = pages_of_split(inputs["pages"], "train") if "pages" in inputs else None
    _check_pages(pairs, pages, inputs)
    if config.mode == "judged":
        _check_answers(pairs, inputs["pairs"])
    known = _known_positives(inputs.get("previous"))
    mine = [pair for block in blocks_of(pairs, config.block, _ids(pairs), part_of(config.shard)) for pair in block]
    ledger: Mapping[str, Any] | None = None
    if config.mode == "in_batch":
        nothing: Entry = {"positive_rank": None, "positive_score": None, "looked": [], "ahead": 0}
        found = {pair.query_id: {**nothing, "known": known.get(pair.query_id, ())} for pair in mine}
    else:
        found, ledger = _search_and_judge(config, inputs, out, pairs, mine, pages, known)
    positions = {pair.query_id: position for position, pair in enumerate(pairs)}
    mined = [mined_of(positions[pair.query_id], pair, found.get(pair.query_id), config) for pair in mine]
    store = TileStore.open(inputs["tiles"]) if config.review_pairs else None
    counts = write_results(out, mined, {pair.query_id: pair for pair in pairs}, store, Rules.of(vars(config)))
    if ledger is not None:
        write_cost(out, ledger, found, counts["examples"])
    return counts


def _ids(pairs: Sequence[QAPair]) -> frozenset[str]:
    return frozenset(pair.query_id for pair in pairs)


def _known_positives(previous: Path | None) -> dict[str, tuple[str, ...]]:
    examples = [] if previous is None else read_jsonl(previous, TrainingExample, unique="query_id")
    return {example.query_id: example.known_positive_tile_ids for example in examples}


def _check_pages(pairs: Sequence[QAPair], pages: frozenset[str] | None, inputs: Inputs) -> None:
    stranger = next((pair for pair in pairs if pages is not None and page_of(pair.tile_id) not in pages), None)
    if stranger is not None:
        raise InputError(
            f"{inputs['pairs']}: {stranger.query_id}: page {stranger.page_id} is not a train page of"
            f" {inputs['pages']}: wanted the training pairs of that split"
        )


def _check_answers(pairs: Sequence[QAPair], where: Path) -> None:
    unknown = next((pair for pair in pairs if not any(map(str.isalnum, "".join((pair.answer, *pair.aliases))))), None)
    if unknown is not None:
        raise InputError(
            f"{where}: {unknown.query_id}: wanted an answer with a letter or digit for mode judged to judge by, found"
            f" {unknown.answer!r}"
        )


def _search_and_judge(
    config: Config,
    inputs: Inputs,
    out: Path,
    pairs: Sequence[QAPair],
    mine: Sequence[QAPair],
    pages: Collection[str] | None,
    known: Mapping[str, tuple[str, ...]],
) -> tuple[dict[str, Entry], Mapping[str, Any] | None]:
    """{query_id: what was found out about the pair}, without those whose calls failed; and the sums of the ledger."""
    searcher = Searcher.open(inputs["index"], inputs["checkpoint"], inputs["tiles"], config.device)
    searcher.check_positives(pairs, inputs["pairs"])
    with ExitStack() as stack:
        session = None if config.llm is None else stack.enter_context(Session(config.llm, out))
        look_down = _miner(config, searcher, session, known)
        found = process_items(
            "mine_negatives",
            mine,
            lambda pair: pair.query_id,
            lambda todo: look_down(_Searched(config, searcher, pairs, todo, pages)),
            out,
            max_error_share=config.max_error_share,
            metrics=None if session is None else session.metrics,
        )
        check_unparsed(found, config.max_error_share)
        return found, None if session is None else session.ledger.report()["all"]


def check_unparsed(found: Mapping[str, Entry], most: float) -> None:
    """Raise StageError if more than a share of ``most`` of the judged candidates of ``found`` have no verdict."""
    judged = [(query_id, row) for query_id, entry in found.items() for row in entry["looked"] if row[3] in JUDGED]
    unparsed = [(query_id, *row) for query_id, row in judged if row[3] == Verdict.UNPARSED.value]
    if len(unparsed) > most * len(judged):
        query_id, tile_id, *_, by = unparsed[0]
        raise StageError(
            f"mine_negatives: no verdict for {len(unparsed)} of {len(judged)} judged candidates, allowed share {most};"
            f" first: {query_id}, tile {tile_id}: {by}. Every verdict is kept: mend the prompt, the model or max_tokens"
            " (another request: give another out; the cache of calls serves it too), or accept them by a larger"
            " max_error_share and run the same command again"
        )


class _Searched:
    """The unfinished pairs with their candidates: a block is encoded and searched while the one before is judged.

    Blocks are those of the whole list, so floats don't depend on what is finished, or on the shard.
    """

    def __init__(
        self,
        config: Config,
        searcher: Searcher,
        pairs: Sequence[QAPair],
        todo: Sequence[QAPair],
        pages: Collection[str] | None,
    ) -> None:
        self._config, self._searcher, self._pairs, self._pages = config, searcher, pairs, pages
        self._todo = _ids(todo)

    def __len__(self) -> int:
        return len(self._todo)

    def __iter__(self) -> Iterator[Ranked]:
        blocks = blocks_of(self._pairs, self._config.block, self._todo)
        for _, ranked in prefetch(blocks, self._search, workers=1):
            yield from ranked

    def _search(self, block: Sequence[QAPair]) -> list[Ranked]:
        scored = self._config.mode == "margin"
        ranked = self._searcher.search(block, self._config.top_k, self._pages, score_positives=scored)
        return [each for each in zip(block, ranked, strict=True) if each[0].query_id in self._todo]


def _miner(
    config: Config, searcher: Searcher, session: Session | None, known: Mapping[str, tuple[str, ...]]
) -> Callable[[_Searched], Found]:
    """What walks down the candidates of pairs; with a ``session`` its model judges."""
    if session is not None:
        judge = LlmJudge(config.prompts)

        async def asked(client: Client, ranked: Ranked) -> Entry:
            return await _mine_asking(client, judge, ranked, config, searcher, known.get(ranked[0].query_id, ()))

        return lambda ranked: ((pair, value) for (pair, _), value in session.run(ranked, asked))
    offline = JUDGES[config.judge]()
    return lambda ranked: (
        (each[0], _mine(each, config, searcher, offline, known.get(each[0].query_id, ()))) for each in ranked
    )


def _mine(
    ranked: Ranked, config: Config, searcher: Searcher, judge: Judge, known: tuple[str, ...]
) -> Entry | ItemError:
    pair, candidates = ranked
    answers = (pair.answer, *pair.aliases)
    said: dict[str, Look] = {}

    def look(tile_id: str) -> str:
        verdict = judge.judge(pair.query, answers, searcher.tile(tile_id))
        said[tile_id] = Look(verdict, None, config.judge)
        return verdict.value

    try:
        walked = walk(route_of(pair, candidates, config, searcher.digest, known), look)
    except ItemError as error:
        return error
    return entry_of(candidates, walked, said, known)


async def _mine_asking(
    client: Client, judge: LlmJudge, ranked: Ranked, config: Config, searcher: Searcher, known: tuple[str, ...]
) -> Entry:
    pair, candidates = ranked
    answers = (pair.answer, *pair.aliases)
    said: dict[str, Look] = {}

    async def look(tile_id: str) -> str:
        tile = searcher.pictured(tile_id) if judge.sees_pictures else searcher.tile(tile_id)
        said[tile_id] = await judge.look(client, pair.query, answers, tile)
        return said[tile_id].verdict.value

    route = route_of(pair, candidates, config, searcher.digest, known)
    return entry_of(candidates, await walk_ahead(route, look, config.width), said, known)


def entry_of(candidates: Candidates, walked: Walk, said: Mapping[str, Look], known: tuple[str, ...]) -> Entry:
    """What is journalled of a pair; ``mined_of`` reads it. ``known``: known positives of an earlier round."""
    ranks = {tile_id: rank for rank, tile_id in enumerate(candidates.tile_ids, start=1)}
    looked = []
    for tile_id, outcome in walked.outcomes:
        look = said.get(tile_id)
        why = [None, ""] if look is None else [look.answer, look.by]
        looked.append([tile_id, ranks[tile_id], candidates.scores[ranks[tile_id] - 1], outcome, *why])
    return {
        "positive_rank": candidates.positive_rank,
        "positive_score": candidates.positive_score,
        "looked": looked,
        "known": list(known),
        "ahead": walked.judged_ahead,
    }


STAGE = Stage("mine_negatives", Config, mine_negatives, schema=2, show=show)

if __name__ == "__main__":
    main(STAGE)
