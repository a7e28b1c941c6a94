"""Stage: what several minings took for negatives, against all tiles that are known to answer the queries."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main, write_atomically
from tilewright.data_gen.find_positives import Positives
from tilewright.data_gen.records import TrainingExample, read_jsonl
from tilewright.data_gen.tiles import page_of
from tilewright.mining.mined import EXAMPLES
from tilewright.mining.mining_report import CONFIDENCE, share_interval

REPORT = "report.json"
BY = ("stated", "judged", "either")


@dataclass(frozen=True)
class Config:
    """``negatives``: folders of mine_negatives, shown by their names; ``positives``: positives.jsonl of find_positives.

    ``used``: how many of an example's negatives training takes (its ``hard_negatives``); they are counted apart.
    """

    out: Path
    used: int
    negatives: tuple[Path, ...] = input_path()
    positives: Path = input_path()

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "used")
        names = [folder.name for folder in self.negatives]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"negatives: wanted folders of different names, at least one, found {names}")


def count_false_negatives(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write REPORT: {folder: {"all" and "used": negatives and false ones among them, with intervals over pages}}.

    Raises InputError for an example that ``positives`` doesn't know.
    """
    positives = {one.query_id: one for one in read_jsonl(inputs["positives"], Positives, unique="query_id")}
    report = {}
    for folder in config.negatives:
        path = folder / EXAMPLES
        examples = read_jsonl(path, TrainingExample, unique="query_id")
        unknown = next((one.query_id for one in examples if one.query_id not in positives), None)
        if unknown is not None:
            raise InputError(f"{path}: {unknown}: wanted pairs of {inputs['positives']}, which has no such query")
        report[folder.name] = {
            "all": false_negatives(examples, positives, None),
            "used": false_negatives(examples, positives, config.used),
        }
    write_atomically(out / REPORT, json.dumps(report, indent=1) + "\n")
    return report


def false_negatives(
    examples: Sequence[TrainingExample], positives: Mapping[str, Positives], first: int | None
) -> dict[str, Any]:
    """Of the ``first`` negatives of each example (None: of all) how many answer its query, by truth, judge and either.

    Intervals of the shares take the examples of a positive's page as one cluster.
    """
    trials: Counter[str] = Counter()
    false: dict[str, Counter[str]] = defaultdict(Counter)
    hit = 0
    for one in examples:
        known, page = positives[one.query_id], page_of(one.positive_tile_id)
        taken = one.negative_tile_ids[:first]
        trials[page] += len(taken)
        for by, tile_ids in zip(BY, (known.stated, known.judged, known.tile_ids), strict=True):
            false[by][page] += sum(tile_id in tile_ids for tile_id in taken)
        hit += any(tile_id in known.tile_ids for tile_id in taken)
    found: dict[str, Any] = {"examples": len(examples), "negatives": trials.total(), "examples_with_false": hit}
    for by in BY if trials.total() else ():
        low, high = share_interval([(false[by][page], n) for page, n in trials.items() if n], CONFIDENCE)
        total = false[by].total()
        found[by] = {"false": total, "share": total / trials.total(), "low": low, "high": high}
    return found


def show(out: Path) -> None:
    """Print the shares of the used negatives."""
    table = Table("negatives", "used", *(f"false, {by}" for by in BY))
    for name, found in json.loads((out / REPORT).read_text(encoding="utf-8")).items():
        used = found["used"]
        shares = (used.get(by) for by in BY)
        cells = (f"{one['share']:.3f} [{one['low']:.3f}, {one['high']:.3f}]" if one else "–" for one in shares)
        table.add_row(escape(name), str(used["negatives"]), *cells)
    Console().print(table)


STAGE = Stage("count_false_negatives", Config, count_false_negatives, schema=1, show=show)

if __name__ == "__main__":
    main(STAGE)
