"""pairs -> pairs worth training on: self-contained, answered by their tile, one answer in the whole corpus."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.answers import normalize_answer
from tilewright.data_gen.grounded.corpus import CorpusText
from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.data_gen.grounded.self_contained import fault
from tilewright.data_gen.grounded.terms import contains_title, holds, terms, title_terms
from tilewright.data_gen.pair_files import check_tiles
from tilewright.data_gen.pair_outcomes import PAIRS, read_input_pairs
from tilewright.data_gen.records import QAPair, Tile, write_jsonl
from tilewright.data_gen.shingles import split_unspaced, tokens
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.verdicts import Verdict


@dataclass(frozen=True)
class Config:
    """Filters ``pairs`` (folder of make_queries) with the text of ``tiles``; every drop is counted by reason.

    ``judge``: grounded judges self-containment, answerability and uniqueness by the DOM text; none leaves that to the
    stages self_contained and answerable, and keeps the rules: length, answers given away, questions asked twice.
    ``min_answer_characters`` is of the normalised answer; 1 keeps one-digit answers.
    """

    out: Path
    judge: Literal["grounded", "none"]
    min_key_terms: int
    max_query_words: int
    min_answer_characters: int
    max_answer_words: int
    pairs: Path = input_path()
    tiles: Path = input_path()

    def __post_init__(self) -> None:
        check_bounds(self, 0, None, "min_key_terms", "min_answer_characters")
        check_bounds(self, 1, None, "max_query_words", "max_answer_words")


Filter = Callable[[QAPair], str | None]


def filter_pairs(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write the kept pairs to ``pairs.jsonl``, in their order. Raises InputError if ``pairs`` has none."""
    store = TileStore.open(inputs["tiles"])
    pairs = read_input_pairs(inputs["pairs"], "make_queries")
    tiles = {tile.tile_id: tile for tile in store.iterate_light()}
    check_tiles(pairs, store, inputs["pairs"] / PAIRS)
    checks = filters(config, tiles)
    drops: Counter[str] = Counter()
    kept = [pair for pair in pairs if not _dropped(pair, checks, drops)]
    kept = _without_repeats(kept, drops)
    write_jsonl(out / PAIRS, kept)
    titles = {tile.page_id: tile.title for tile in tiles.values()}
    return {"pairs": len(pairs), "kept": len(kept), **dict(sorted(drops.items())), **figures(kept, titles)}


def _dropped(pair: QAPair, all_filters: Iterable[Filter], drops: Counter[str]) -> bool:
    """Whether a filter drops ``pair``; the first that does is counted."""
    for check in all_filters:
        reason = check(pair)
        if reason is not None:
            drops[f"dropped_{reason}"] += 1
            return True
    return False


def filters(config: Config, tiles: dict[str, Tile]) -> tuple[Filter, ...]:
    """The filters in their order; each returns why it drops a pair, or None."""

    def answer_length(pair: QAPair) -> str | None:
        normal = normalize_answer(pair.answer)
        if len(normal) < config.min_answer_characters:
            return "answer_too_short"
        return "answer_too_long" if len(normal.split()) > config.max_answer_words else None

    def on_tile(pair: QAPair) -> str | None:
        return None if pair.answer in tiles[pair.tile_id].text else "answer_not_on_tile"

    def given_away(pair: QAPair) -> str | None:
        return "answer_in_query" if any(says(pair.query, answer) for answer in (pair.answer, *pair.aliases)) else None

    if config.judge == "none":
        return answer_length, given_away
    judge = GroundedJudge()
    corpus = CorpusText(tiles.values())

    def self_contained(pair: QAPair) -> str | None:
        found = fault(pair.query, pair.subject, config.min_key_terms, config.max_query_words)
        return None if found is None else f"not_self_contained_{found}"

    def answerable(pair: QAPair) -> str | None:
        verdict = judge.judge(pair.query, (pair.answer, *pair.aliases), tiles[pair.tile_id])
        return None if verdict is Verdict.CORRECT else "not_answerable"

    def unique(pair: QAPair) -> str | None:
        if corpus.other_pages_with(pair):
            return "not_unique"
        return "contradicted" if corpus.contradicts(pair, judge) else None

    return answer_length, on_tile, given_away, self_contained, answerable, unique


def says(query: str, answer: str) -> bool:
    """Whether the words of ``answer`` stand in ``query``; letter by letter in scripts written without blanks."""
    parts = tokens if split_unspaced(answer)[1] else terms
    return holds(parts(query), parts(answer))


def _without_repeats(pairs: list[QAPair], drops: Counter[str]) -> list[QAPair]:
    """Drop queries that have different answers altogether; of those with one answer, keep the smallest tile id."""
    by_query: dict[tuple[str, ...], list[QAPair]] = defaultdict(list)
    for pair in pairs:
        by_query[_words(pair.query)].append(pair)
    kept = set()
    for same in by_query.values():
        if len({_words(pair.answer) for pair in same}) > 1:
            drops["dropped_two_answers"] += len(same)
            continue
        drops["dropped_repeated"] += len(same) - 1
        kept.add(min(same, key=lambda pair: (pair.tile_id, pair.query_id)).query_id)
    return [pair for pair in pairs if pair.query_id in kept]


def _words(text: str) -> tuple[str, ...]:
    """The terms of a text; itself where it has none (scripts that ``terms`` doesn't part)."""
    return terms(text) or (normalize_answer(text) or text,)


def figures(pairs: list[QAPair], titles: dict[str, str]) -> Counts:
    """What the kept pairs are like: by type, and whether a query could be found by its page's title alone.

    ``without_title``: the query doesn't hold the page's title; ``without_title_terms``: not even one telling word.
    """
    free = [pair for pair in pairs if not contains_title(pair.query, titles[pair.page_id])]
    bare = [pair for pair in free if not title_terms(titles[pair.page_id]) & set(terms(pair.query))]
    return {
        "pages_with_pairs": len({pair.page_id for pair in pairs}),
        "tiles_with_pairs": len({pair.tile_id for pair in pairs}),
        "by_type": dict(sorted(Counter(pair.source_type for pair in pairs).items())),
        "with_title": len(pairs) - len(free),
        "without_title": len(free),
        "without_title_terms": len(bare),
        "share_without_title": round(len(free) / len(pairs), 4) if pairs else 0.0,
    }


STAGE = Stage("filter_pairs", Config, filter_pairs, schema=1)

if __name__ == "__main__":
    main(STAGE)
