"""What came of a language model in the loop: yield, drops, unread replies, calls, agreement with the offline judge.

    python benchmarks/llm_loop.py [RUNS/paper_small/llm_loop]      (after `make llm-loop`; seconds)

Prints one JSON line. ``agreement``: the model's verdict (CORRECT or not) against that of ``grounded`` on the same
query, known answer and tile, a verdict that can't be read left out; ``answerable``: on a pair's own tile, ``mining``:
on the nearest others. ``kappa`` is Cohen's. Neither judge is the truth. ``mined_alike``: the share of mined negatives
that ``grounded`` too wouldn't call an answer. ``calls``: by purpose, as the ledgers of the stages count them.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.data_gen.pair_outcomes import OUTCOMES, PAIRS, read_outcomes
from tilewright.data_gen.records import QAPair, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.verdicts import Verdict
from tilewright.mining.mined import Looked
from tilewright.mining.mining_report import JUDGED

STAGES = ("queries", "filtered", "self_contained", "answerable", "splits", "negatives")
ASKING = ("queries", "self_contained", "answerable", "negatives")
Judged = Iterable[tuple[QAPair, str, str]]  # pair, tile_id, verdict of the model


def verdict_table(folder: Path) -> dict[str, Any]:
    """{stage: what its manifest counts}, without what isn't a number."""
    found = {}
    for stage in STAGES:
        counts = json.loads((folder / stage / "manifest.json").read_text(encoding="utf-8"))["counts"]
        found[stage] = {name: value for name, value in counts.items() if isinstance(value, int)}
        if "verdicts" in counts:
            found[stage]["verdicts"] = counts["verdicts"]
    return found


def calls(folder: Path) -> dict[str, Any]:
    """{stage: {purpose: calls, tokens, replies that couldn't be used}} and the seconds of each stage's last run."""
    found: dict[str, Any] = {}
    for stage in ASKING:
        ledger = json.loads((folder / stage / "logs/ledger.json").read_text(encoding="utf-8"))
        names = ("calls", "input_tokens", "output_tokens", "unusable")
        parts = {purpose: {name: sums[name] for name in names} for purpose, sums in ledger["by_purpose"].items()}
        manifest = json.loads((folder / stage / "manifest.json").read_text(encoding="utf-8"))
        found[stage] = parts | {"seconds": manifest["provenance"]["seconds"]}
    return found


def of_own_tiles(folder: Path, pairs: Mapping[str, QAPair]) -> Judged:
    """What the model said of pairs and their own tiles."""
    for outcome in read_outcomes(folder / "answerable" / OUTCOMES):
        if "verdict" in outcome.facts:
            pair = pairs[outcome.query_id]
            yield pair, pair.tile_id, outcome.facts["verdict"]


def of_candidates(folder: Path, pairs: Mapping[str, QAPair]) -> Judged:
    """What it said of candidates in mining."""
    for looked in read_jsonl(folder / "negatives/verdicts.jsonl", Looked):
        if looked.outcome in JUDGED:
            yield pairs[looked.query_id], looked.tile_id, looked.outcome


def agreement(judged: Judged, store: TileStore) -> dict[str, Any]:
    """The four cells, the share of equal verdicts and Cohen's kappa (None where one judge says the same of all)."""
    offline = GroundedJudge()
    cells: Counter[tuple[bool, bool]] = Counter()
    unparsed = 0
    for pair, tile_id, verdict in judged:
        if verdict == Verdict.UNPARSED.value:
            unparsed += 1
            continue
        said = offline.judge(pair.query, (pair.answer, *pair.aliases), store.light(tile_id))
        cells[verdict == Verdict.CORRECT.value, said is Verdict.CORRECT] += 1
    n = cells.total()
    named = {"both": cells[True, True], "model_alone": cells[True, False]}
    named |= {"grounded_alone": cells[False, True], "neither": cells[False, False]}
    equal = (named["both"] + named["neither"]) / n if n else None
    return {"n": n, "unparsed": unparsed} | named | {"equal": equal, "kappa": kappa(cells)}


def kappa(cells: Mapping[tuple[bool, bool], int]) -> float | None:
    """Cohen's kappa of a 2 x 2 table; None where it isn't defined."""
    n = sum(cells.values())
    if not n:
        return None
    first, second = ((sum(count for key, count in cells.items() if key[place])) / n for place in (0, 1))
    chance = first * second + (1 - first) * (1 - second)
    equal = sum(count for key, count in cells.items() if key[0] == key[1]) / n
    return None if chance == 1 else (equal - chance) / (1 - chance)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("runs/paper_small/llm_loop"))
    folder = parser.parse_args().folder
    pairs = {pair.query_id: pair for pair in read_jsonl(folder / "queries" / PAIRS, QAPair)}
    store = TileStore.open(folder / "tiles")
    own, mined = agreement(of_own_tiles(folder, pairs), store), agreement(of_candidates(folder, pairs), store)
    negatives = mined["grounded_alone"] + mined["neither"]
    table = verdict_table(folder)
    report = {
        "stages": table,
        "yield_per_tile": table["answerable"]["kept"] / table["queries"]["tiles"],
        "calls": calls(folder),
        "agreement": {"answerable": own, "mining": mined},
        "mined_alike": mined["neither"] / negatives if negatives else None,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
