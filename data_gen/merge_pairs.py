"""The parts of a sharded stage (``shard: i/n``) -> the files that one run would have written.

Of make_queries, self_contained, answerable and natural, folders with pairs.jsonl and outcomes.jsonl, and of text_pairs.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen import make_queries, text_pairs
from tilewright.data_gen.pair_files import read_pair_file
from tilewright.data_gen.pair_outcomes import KEPT, OUTCOMES, PAIRS, Outcome, read_outcomes, write_outcomes
from tilewright.data_gen.part_manifests import manifests_of_parts
from tilewright.data_gen.parts import in_part, part_of
from tilewright.data_gen.records import QAPair, TextPair, iterate_jsonl, read_jsonl, write_jsonl

TEXT = "text_pairs"
STAGES = ("make_queries", "self_contained", "answerable", "natural", TEXT)


@dataclass(frozen=True)
class Config:
    """``parts``: the output folders of one stage for shard 0/n to n-1/n, in any order; all n must be there."""

    out: Path
    parts: tuple[Path, ...] = input_path()


def merge_pairs(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write pairs.jsonl and outcomes.jsonl, or text_pairs.jsonl.

    Raises InputError unless the parts are those of one request, and if text pairs are wanted and no part has one.
    """
    parts: Sequence[Path] = config.parts
    manifests = manifests_of_parts(parts, STAGES)
    counts = [manifest["counts"] for manifest in manifests]
    if manifests[0]["request"]["stage"] == TEXT:
        return _merge_text(parts, manifests, out)
    pairs = [pair for part in parts for pair in read_pair_file(part / PAIRS)]
    if manifests[0]["request"]["stage"] == "make_queries":
        merged = _merge_queries(parts, pairs, counts[0]["annotator"], out)
    else:
        outcomes = [outcome for part in parts for outcome in read_outcomes(part / OUTCOMES)]
        _check_whole(parts, pairs, outcomes)
        merged = write_outcomes(out, {pair.query_id: pair for pair in pairs}, outcomes)
    return merged | {key: _added([each[key] for each in counts]) for key in counts[0] if key not in merged}


def _check_whole(parts: Sequence[Path], pairs: Sequence[QAPair], outcomes: Sequence[Outcome]) -> None:
    """Raise InputError unless the outcomes are one a pair of the input, and the kept ones those of ``pairs``."""
    if sorted(outcome.position for outcome in outcomes) != list(range(len(outcomes))):
        raise InputError(f"{[str(part) for part in parts]}: wanted one outcome for each pair of the stage's input")
    kept = sorted(outcome.query_id for outcome in outcomes if outcome.outcome == KEPT)
    if kept != sorted(pair.query_id for pair in pairs):
        raise InputError(f"{[str(part) for part in parts]}: {PAIRS} holds other pairs than {OUTCOMES} says were kept")


def _merge_queries(parts: Sequence[Path], pairs: Sequence[QAPair], annotator: str, out: Path) -> Counts:
    outcomes = [one for part in parts for one in read_jsonl(part / OUTCOMES, make_queries.TileOutcome)]
    outcomes.sort(key=lambda outcome: outcome.tile_id)
    ordered = sorted(pairs, key=lambda pair: pair.tile_id)  # stable: a tile's pairs keep their order
    write_jsonl(out / PAIRS, ordered)
    write_jsonl(out / OUTCOMES, outcomes)
    return make_queries.counts_of(outcomes, ordered, annotator)


def _merge_text(parts: Sequence[Path], manifests: Sequence[dict[str, Any]], out: Path) -> Counts:
    """The parts' pairs in the order of pages, each query once."""
    sums = Counter(dict.fromkeys((f"dropped_{reason}" for reason in text_pairs.DROPS), 0))
    for manifest in manifests:
        counts = manifest["counts"]
        summed = [name for name in counts if name.startswith("dropped_") or name in ("tiles", "pages")]
        sums.update({name: counts[name] for name in summed})
    drops: Counter[str] = Counter()
    streams = [_part_pairs(part, manifest) for part, manifest in zip(parts, manifests, strict=True)]
    ordered = heapq.merge(*streams, key=lambda pair: pair.page_id)
    methods = manifests[0]["request"]["config"]["methods"]
    found = text_pairs.write_pairs(out, text_pairs.unrepeated(ordered, drops), methods)
    if not found["pairs"]:
        raise InputError(f"{[str(part) for part in parts]}: wanted at least one text pair in the parts, found none")
    sums.update({f"dropped_{reason}": number for reason, number in drops.items()})
    return {**sums, **found}


def _part_pairs(part: Path, manifest: Mapping[str, Any]) -> Iterator[TextPair]:
    """A part's text pairs. Raises InputError unless they are its own, in the order of pages, as many as it counted."""
    path, shard = part / text_pairs.PAIRS, manifest["request"]["config"]["shard"]
    number, page = 0, ""
    for number, pair in enumerate(iterate_jsonl(path, TextPair), start=1):
        if pair.page_id < page or not _is_in(pair.page_id, shard):
            raise InputError(f"{path}:{number}: wanted pages of shard {shard} in their order, found {pair.page_id!r}")
        page = pair.page_id
        yield pair
    if number != manifest["counts"]["pairs"]:
        raise InputError(f"{path}: wanted the {manifest['counts']['pairs']} pairs of its manifest, found {number}")


def _is_in(page_id: str, shard: str) -> bool:
    try:
        return in_part(page_id, part_of(shard))
    except ValueError:  # no page_id at all
        return False


def _added(values: Sequence[Any]) -> Any:
    """Counts added up, also inside tables; of names, the one that all share."""
    if isinstance(values[0], dict):
        total: Counter[str] = Counter()
        for value in values:
            total.update(value)
        return dict(sorted(total.items()))
    return sum(values) if isinstance(values[0], int) else values[0]


STAGE = Stage("merge_pairs", Config, merge_pairs, schema=1)

if __name__ == "__main__":
    main(STAGE)
