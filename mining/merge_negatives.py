"""Stage: the parts of a sharded mine_negatives (``shard: i/n``) -> the files that one run would have written."""

import itertools
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.part_manifests import manifests_of_parts
from tilewright.data_gen.records import TrainingExample, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.mining.mined import EXAMPLES, KEPT, KEPT_SHORT, OUTCOMES, VERDICTS, Looked, Mined, PairOutcome, Rules
from tilewright.mining.mining_report import show, write_results
from tilewright.train.split_files import read_pairs

OF = "mine_negatives"


@dataclass(frozen=True)
class Config:
    """``parts``: the output folders of mine_negatives for shard 0/n to n-1/n, in any order; all n must be there.
    ``pairs`` and ``tiles``: those that were mined; tiles are looked at for review.html only.
    """

    out: Path
    parts: tuple[Path, ...] = input_path()
    pairs: Path = input_path()
    tiles: Path | None = input_path(default=None)


def merge_negatives(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write examples.jsonl, outcomes.jsonl, verdicts.jsonl, report.json and, if the parts have one, review.html.

    Raises InputError unless the parts are those of one request and hold each of ``pairs`` once.
    """
    manifests = manifests_of_parts(config.parts, [OF])
    rules = Rules.of(manifests[0]["request"]["config"])
    pairs = read_pairs(inputs["pairs"])
    mined = sorted(itertools.chain(*map(_mined, config.parts)), key=lambda one: one.pair.position)
    if [one.pair.query_id for one in mined] != [pair.query_id for pair in pairs]:
        raise InputError(
            f"{inputs['pairs']}: wanted the {len(mined)} pairs that the parts were mined for, found others or another"
            f" number of them ({len(pairs)}): name the file that mine_negatives was given"
        )
    if rules.review_pairs and config.tiles is None:
        raise InputError("tiles: wanted those that were mined, for review.html, found none")
    store = TileStore.open(inputs["tiles"]) if rules.review_pairs else None
    return write_results(out, mined, {pair.query_id: pair for pair in pairs}, store, rules)


def _mined(part: Path) -> list[Mined]:
    """What a part found out. Raises InputError for files that don't belong together."""
    examples = {one.query_id: one for one in read_jsonl(part / EXAMPLES, TrainingExample, unique="query_id")}
    looked: dict[str, list[Looked]] = {}
    for one in read_jsonl(part / VERDICTS, Looked):
        looked.setdefault(one.query_id, []).append(one)
    outcomes = read_jsonl(part / OUTCOMES, PairOutcome, unique="query_id")
    kept = [one.query_id for one in outcomes if one.outcome in (KEPT, KEPT_SHORT)]
    if kept != list(examples) or not looked.keys() <= {one.query_id for one in outcomes}:
        raise InputError(f"{part}: {EXAMPLES} or {VERDICTS} holds other pairs than {OUTCOMES}")
    return [Mined(one, tuple(looked.get(one.query_id, ())), examples.get(one.query_id)) for one in outcomes]


STAGE = Stage("merge_negatives", Config, merge_negatives, schema=1, show=show)

if __name__ == "__main__":
    main(STAGE)
