"""pairs -> train, validation and test by page: no page stands in two splits, no question (nearly) in two either."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.grounded.terms import key_terms
from tilewright.data_gen.make_queries import read_pages
from tilewright.data_gen.pair_files import read_pair_file
from tilewright.data_gen.records import QAPair, write_jsonl
from tilewright.data_gen.splits import SPLITS, check_shares, split_of


@dataclass(frozen=True)
class Config:
    """Splits ``pairs`` (folder of filter_pairs) by page; ``tiles`` (folder of render_tiles) names all pages.

    ``shares``: of pages, for train, validation and test. ``max_similarity``: questions of two splits whose key terms
    overlap (Jaccard) by at least this much are near duplicates; the one outside the test set (else outside
    validation) goes.
    """

    out: Path
    shares: dict[str, float]
    seed: int
    max_similarity: float
    pairs: Path = input_path()
    tiles: Path = input_path()

    def __post_init__(self) -> None:
        check_shares(self.shares)
        if not 0 < self.max_similarity <= 1:
            raise ValueError(f"max_similarity: wanted above 0 and at most 1, found {self.max_similarity}")


def split_pairs(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write one JSONL a split, and ``pages.json``: {split: [page_id, ...]} of all pages, also those without pairs."""
    path = inputs["pairs"] / "pairs.jsonl"
    if not path.is_file():
        raise InputError(f"{path} is missing: wanted the output folder of filter_pairs")
    pairs = read_pair_file(path)
    pages = sorted(read_pages(inputs["tiles"]).keys() | {pair.page_id for pair in pairs})
    place = {page: split_of(page, config.shares, config.seed) for page in pages}
    by_split = {name: [pair for pair in pairs if place[pair.page_id] == name] for name in SPLITS}
    drops: Counter[str] = Counter()
    for name, guards in (("train", ("test", "validation")), ("validation", ("test",))):
        others = [pair.query for guard in guards for pair in by_split[guard]]
        near = near_duplicates([pair.query for pair in by_split[name]], others, config.max_similarity)
        drops[f"dropped_near_duplicate_{name}"] = len(near)
        by_split[name] = [pair for i, pair in enumerate(by_split[name]) if i not in near]
    for name, chosen in by_split.items():
        write_jsonl(out / f"{name}.jsonl", chosen)
    listed = {name: [page for page in pages if place[page] == name] for name in SPLITS}
    (out / "pages.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    return {
        **{name: len(chosen) for name, chosen in by_split.items()},
        **drops,
        "pages": _page_counts(listed, by_split),
    }


def _page_counts(listed: Mapping[str, Sequence[str]], by_split: Mapping[str, Sequence[QAPair]]) -> Counts:
    return {
        name: {"all": len(listed[name]), "with_pairs": len({pair.page_id for pair in by_split[name]})}
        for name in SPLITS
    }


def near_duplicates(queries: Sequence[str], others: Sequence[str], max_similarity: float) -> set[int]:
    """Positions in ``queries`` whose key terms overlap those of one of ``others`` by ``max_similarity`` or more.

    Exact: by prefix filtering (Chaudhuri et al. 2006), two sets of that Jaccard similarity share one of the rarest
    terms of each, so only those are looked up.
    """
    sets = [key_terms(query) for query in queries]
    other_sets = [key_terms(query) for query in others]
    frequency = Counter(term for found in (*sets, *other_sets) for term in found)

    def prefix(found: frozenset[str]) -> list[str]:
        rare_first = sorted(found, key=lambda term: (frequency[term], term))
        return rare_first[: len(found) - math.ceil(max_similarity * len(found)) + 1]

    holders: dict[str, set[int]] = defaultdict(set)
    for i, found in enumerate(other_sets):
        for term in prefix(found):
            holders[term].add(i)
    return {
        i
        for i, found in enumerate(sets)
        for j in set().union(*(holders.get(term, set()) for term in prefix(found)))
        if len(found & other_sets[j]) >= max_similarity * len(found | other_sets[j])
    }


STAGE = Stage("split_pairs", Config, split_pairs, schema=1)

if __name__ == "__main__":
    main(STAGE)
