"""pairs -> train, validation and test by page: no page stands in two splits, no question (nearly) in two either."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.bounds import check_bounds
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.decontamination import (
    EvaluationSet,
    contamination_counts,
    contaminations,
    gold_pages,
    read_evaluation_sets,
)
from tilewright.data_gen.gated_tiles import read_pages
from tilewright.data_gen.grounded.terms import key_terms
from tilewright.data_gen.pair_outcomes import KEPT, read_input_pairs
from tilewright.data_gen.records import QAPair, write_jsonl
from tilewright.data_gen.review import ReviewItem, sample, store_to_review, write_review
from tilewright.data_gen.review_page import REVIEW
from tilewright.data_gen.set_similarity import SimilarSets
from tilewright.data_gen.shingles import split_unspaced
from tilewright.data_gen.splits import SPLITS, check_shares, split_of, stratified
from tilewright.data_gen.tile_store import TileStore

GOLD = "evaluation"  # the list, in pages.json, of pages that no split may use


@dataclass(frozen=True)
class Config:
    """Splits ``pairs`` (folder of filter_pairs) by page; ``tiles`` (folder of render_tiles) names all pages.

    ``shares``: of pages, for train, validation and test. ``stratify``: lay out the pages of each evidence kind (that of
    most of their pairs) by ``shares``, so that no split lacks tables or infoboxes; false: by digest of the page's id
    alone, so that no page ever moves when others come or go (with strata a few beside the cuts may). Pages without
    pairs go by digest always; nothing depends on the evaluation sets.
    ``max_similarity``: questions of two splits whose key terms overlap (Jaccard) by at least this much are near
    duplicates; the one outside the test set (else outside validation) goes.

    ``evaluation_sets``: JSONL files of ``query`` or ``question`` and, if they have any, gold URLs (``gold_urls``,
    ``url`` or ``urls``). Gold pages are in no split and lose their pairs; so does each question whose runs of
    ``shingle_words`` words overlap those of an evaluation question (Jaccard) by at least
    ``max_evaluation_similarity``: at 0.6 a question of ten words may differ in one. All are in decontamination.jsonl.

    ``review_pairs``: so many of the kept pairs, drawn by ``seed`` from all splits, are shown in review.html.
    """

    out: Path
    shares: dict[str, float]
    stratify: bool
    seed: int
    max_similarity: float
    pairs: Path = input_path()
    tiles: Path = input_path()
    evaluation_sets: tuple[Path, ...] = input_path(default=())
    shingle_words: int = 2
    max_evaluation_similarity: float = 0.6
    review_pairs: int = 0

    def __post_init__(self) -> None:
        check_shares(self.shares)
        check_bounds(self, 1, None, "shingle_words")
        check_bounds(self, 0, None, "review_pairs")
        for name in ("max_similarity", "max_evaluation_similarity"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name}: wanted above 0 and at most 1, found {getattr(self, name)}")


def split_pairs(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write one JSONL a split, and ``pages.json``: {split: [page_id, ...]} of all pages, also those without pairs.

    With evaluation sets also ``decontamination.jsonl``; pages.json then lists their gold pages under ``evaluation``.
    Raises InputError if ``pairs`` has none, and if pairs to be reviewed are of tiles that ``tiles`` lacks.
    """
    pairs = read_input_pairs(inputs["pairs"], "filter_pairs")
    store = store_to_review(inputs, pairs, config.review_pairs)
    sets = read_evaluation_sets(config.evaluation_sets)
    urls = {page: found.url for page, found in read_pages(inputs["tiles"]).items()}
    pages = sorted(urls.keys() | {pair.page_id for pair in pairs})
    listed = _listed(config, pairs, pages, gold_pages(sets, urls, pages))
    counts: Counts = {}
    if sets:
        pairs, counts = _decontaminated(config, pairs, sets, urls, out)
    by_split, drops = _without_near_duplicates(pairs, listed, config.max_similarity)
    for name, chosen in by_split.items():
        write_jsonl(out / f"{name}.jsonl", chosen)
    (out / "pages.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    if store is not None:
        _write_review(out, by_split, store, config)
    return {
        **{name: len(chosen) for name, chosen in by_split.items()},
        **drops,
        **counts,
        "pages": _page_counts(listed, by_split),
        "by_type": {name: _by_type(chosen) for name, chosen in by_split.items()},
    }


def _write_review(out: Path, by_split: Mapping[str, Sequence[QAPair]], store: TileStore, config: Config) -> None:
    items = [ReviewItem(pair, KEPT, {"split": name}) for name, pairs in by_split.items() for pair in pairs]
    write_review(out / REVIEW, sample(items, config.review_pairs, config.seed), store, title="split_pairs")


def _listed(config: Config, pairs: Sequence[QAPair], pages: Sequence[str], gold: set[str]) -> dict[str, list[str]]:
    """{split: its pages, sorted}; with evaluation sets their gold pages apart."""
    place = {page: split_of(page, config.shares, config.seed) for page in pages}
    if config.stratify:
        place |= stratified(strata(pairs), config.shares, config.seed)
    listed = {name: [page for page in pages if place[page] == name and page not in gold] for name in SPLITS}
    return listed | ({GOLD: [page for page in pages if page in gold]} if config.evaluation_sets else {})


def strata(pairs: Iterable[QAPair]) -> dict[str, str]:
    """{page_id: the evidence kind of most of its pairs}, of equally many the first by name."""
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        kinds[pair.page_id][pair.source_type] += 1
    return {page: min(found, key=lambda kind: (-found[kind], kind)) for page, found in kinds.items()}


def _decontaminated(
    config: Config, pairs: Sequence[QAPair], sets: Sequence[EvaluationSet], urls: Mapping[str, str], out: Path
) -> tuple[list[QAPair], Counts]:
    found = list(
        contaminations(pairs, sets, urls, width=config.shingle_words, threshold=config.max_evaluation_similarity)
    )
    write_jsonl(out / "decontamination.jsonl", found)
    dropped = {entry.query_id for entry in found}
    return [pair for pair in pairs if pair.query_id not in dropped], contamination_counts(found, sets)


def _without_near_duplicates(
    pairs: Sequence[QAPair], listed: Mapping[str, Sequence[str]], max_similarity: float
) -> tuple[dict[str, list[QAPair]], Counts]:
    """{split: its pairs}, of near duplicates in two splits only the one of the split that is read later."""
    place = {page: name for name, pages in listed.items() for page in pages}
    by_split = {name: [pair for pair in pairs if place[pair.page_id] == name] for name in SPLITS}
    drops: Counts = {}
    by_type: dict[str, dict[str, int]] = {}
    for name, guards in (("train", ("test", "validation")), ("validation", ("test",))):
        others = [pair.query for guard in guards for pair in by_split[guard]]
        near = near_duplicates([pair.query for pair in by_split[name]], others, max_similarity)
        drops[f"dropped_near_duplicate_{name}"] = len(near)
        by_type[name] = _by_type(pair for i, pair in enumerate(by_split[name]) if i in near)
        by_split[name] = [pair for i, pair in enumerate(by_split[name]) if i not in near]
    return by_split, drops | {"dropped_near_duplicate_by_type": by_type}


def _by_type(pairs: Iterable[QAPair]) -> dict[str, int]:
    return dict(sorted(Counter(pair.source_type for pair in pairs).items()))


def _page_counts(listed: Mapping[str, Sequence[str]], by_split: Mapping[str, Sequence[QAPair]]) -> Counts:
    counts: Counts = {
        name: {"all": len(listed[name]), "with_pairs": len({pair.page_id for pair in by_split[name]})}
        for name in SPLITS
    }
    return counts | ({GOLD: {"all": len(listed[GOLD])}} if GOLD in listed else {})


def near_duplicates(queries: Sequence[str], others: Sequence[str], max_similarity: float) -> set[int]:
    """Positions in ``queries`` whose key terms overlap those of one of ``others`` by ``max_similarity`` or more."""
    similar = SimilarSets([_compared(query) for query in others], max_similarity)
    return {i for i, query in enumerate(queries) if similar.best(_compared(query)) is not None}


def _compared(query: str) -> frozenset[str]:
    """Key terms; of scripts without blanks, where a whole question would be one term, pairs of letters."""
    spaced, unspaced = split_unspaced(query)
    return key_terms(spaced if unspaced else query) | unspaced


STAGE = Stage("split_pairs", Config, split_pairs, schema=2)

if __name__ == "__main__":
    main(STAGE)
