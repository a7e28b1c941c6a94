"""What mining found, in figures: verdicts by rank, false negatives among naive negatives, drops, calls and cost."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

from rich.console import Console
from rich.table import Table

from tilewright.configs.digests import LOGS
from tilewright.configs.stage import Counts, write_atomically
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of
from tilewright.data_gen.verdicts import Verdict
from tilewright.mining.mined import Looked, Mined, Rules, counts_of, write_mined
from tilewright.mining.mining_review import write_mining_review
from tilewright.mining.walk import ABOVE_MARGIN, DUPLICATE, KNOWN, SAME_PAGE

REPORT, COST = "report.json", "cost.json"
DECIDED = (Verdict.CORRECT.value, Verdict.WRONG.value, Verdict.CANNOT_ANSWER.value)
JUDGED = (*DECIDED, Verdict.UNPARSED.value)
CONFIDENCE = 0.95


def write_results(
    out: Path, mined: Sequence[Mined], pairs: Mapping[str, QAPair], store: TileStore | None, rules: Rules
) -> Counts:
    """Write all files of ``mined`` and return the counts. ``store``: the tiles, if examples are to be reviewed."""
    write_mined(out, mined)
    counts = counts_of(mined, rules)
    write_atomically(out / REPORT, json.dumps(report_of(mined, counts, rules), indent=1) + "\n")
    if store is not None:
        write_mining_review(out, mined, pairs, store, number=rules.review_pairs, seed=rules.seed)
    return counts


def report_of(mined: Sequence[Mined], counts: Counts, rules: Rules) -> dict[str, Any]:
    """The figures that depend on what was found alone, not on how many runs it took."""
    judged = sum(looked.outcome in JUDGED for one in mined for looked in one.looked)
    return {
        "mode": rules.mode,
        "round": rules.round,
        "pairs": counts["pairs"],
        "examples": counts["examples"],
        "dropped": {name: n for name, n in counts.items() if name.startswith("dropped_")},
        "candidates_passed_over": {name: n for name, n in counts.items() if name.startswith("skipped_")},
        "judged": judged,
        "judged_per_example": judged / counts["examples"] if counts["examples"] else None,
        "verdicts_by_rank": verdicts_by_rank(mined),
        "false_negatives_among_naive": naive_false_negatives(mined, rules) if rules.mode == "judged" else None,
    }


def verdicts_by_rank(mined: Sequence[Mined]) -> dict[str, dict[str, float]]:
    """{rank: {verdict: how often, "judged": sum, "correct_share": of those with a verdict}} of judged candidates."""
    by_rank: dict[int, Counter[str]] = {}
    for one in mined:
        for looked in one.looked:
            if looked.outcome in JUDGED:
                by_rank.setdefault(looked.rank, Counter())[looked.outcome] += 1
    table: dict[str, dict[str, float]] = {}
    for rank, found in sorted(by_rank.items()):
        decided = sum(found[name] for name in DECIDED)
        row: dict[str, float] = {**{name: found[name] for name in JUDGED}, "judged": found.total()}
        table[str(rank)] = row | ({"correct_share": found[Verdict.CORRECT.value] / decided} if decided else {})
    return table


def naive_false_negatives(mined: Sequence[Mined], rules: Rules) -> dict[str, Any]:
    """How many of the negatives that mode naive would have taken answer their query, as the judge says.

    Each of them was judged: the walk looks at them all before it has as many negatives. Those without a verdict are
    counted apart. The interval takes the pairs of a page as one cluster.
    """
    by_page: dict[str, list[int]] = {}
    unparsed = 0
    for one in mined:
        naive = [looked.outcome for looked in _naive(one.looked, rules)]
        unparsed += naive.count(Verdict.UNPARSED.value)
        false = sum(outcome in (Verdict.CORRECT.value, KNOWN) for outcome in naive)
        sums = by_page.setdefault(one.pair.page_id, [0, 0])
        sums[0] += false
        sums[1] += len(naive) - naive.count(Verdict.UNPARSED.value)
    clusters = [(false, total) for false, total in by_page.values() if total]
    false, total = sum(false for false, _ in clusters), sum(total for _, total in clusters)
    found: dict[str, Any] = {"judged": total, "false_negatives": false, "unparsed": unparsed, "pages": len(clusters)}
    if not total:
        return found
    low, high = share_interval(clusters, CONFIDENCE)
    return found | {"share": false / total, "low": low, "high": high, "confidence": CONFIDENCE}


def _naive(looked: Sequence[Looked], rules: Rules) -> list[Looked]:
    taken: Counter[str] = Counter()
    naive: list[Looked] = []
    for one in looked:
        page = page_of(one.tile_id)
        passed = one.outcome in (DUPLICATE, SAME_PAGE, ABOVE_MARGIN) or one.rank < rules.first_rank
        if passed or taken[page] == rules.per_page or len(naive) == rules.negatives:
            continue
        taken[page] += 1
        naive.append(one)
    return naive


def share_interval(clusters: Sequence[tuple[int, int]], confidence: float) -> tuple[float, float]:
    """An interval of the share of successes in ``clusters`` of (successes, trials), which aren't independent within.

    Wilson's (1927) with the number of independent trials that would give the variance of the ratio estimator over
    clusters (Cochran, Sampling Techniques, 1977, section 2.12), at most as many as there are; one a cluster where that
    variance is zero. It is too narrow for a handful of clusters. Raises ValueError without trials.
    """
    successes, trials = sum(each[0] for each in clusters), sum(each[1] for each in clusters)
    if not trials:
        raise ValueError("wanted at least 1 trial, found 0")
    share, count = successes / trials, len(clusters)
    residuals = math.fsum((s - share * t) ** 2 for s, t in clusters)
    variance = residuals * count / (count - 1) / trials**2 if count > 1 else 0.0
    independent = min(share * (1 - share) / variance, trials) if variance > 0 else float(count)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    spread = z * z / independent
    centre = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / independent + spread / (4 * independent))
    return max(0.0, centre - half), min(1.0, centre + half)


def write_cost(out: Path, sums: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]], examples: int) -> None:
    """Write ``logs/cost.json``: calls, tokens and cost over all runs, and per example.

    ``sums``: of the ledger; ``found``: journal entries by query_id, which say how many verdicts weren't needed. Beside
    the results: another run of the same request may take another number of calls.
    """
    per_example = {f"{name}_per_example": sums[name] / examples if examples else None for name in ("calls", "cost")}
    ahead = sum(entry["ahead"] for entry in found.values())
    text = json.dumps({"examples": examples, **per_example, "judged_ahead": ahead, **sums}, indent=1)
    write_atomically(out / LOGS / COST, text + "\n")


def show(out: Path) -> None:
    """Print the report of a finished folder."""
    report = json.loads((out / REPORT).read_text(encoding="utf-8"))
    console = Console()
    table = Table("rank", "judged", "CORRECT", "WRONG", "CANNOT_ANSWER", "UNPARSED", "share CORRECT")
    for rank, row in report["verdicts_by_rank"].items():
        share = f"{row['correct_share']:.3f}" if "correct_share" in row else "–"
        table.add_row(rank, *(f"{row[name]:d}" for name in ("judged", *JUDGED)), share)
    if report["verdicts_by_rank"]:
        console.print(table)
    naive = report["false_negatives_among_naive"]
    if naive and naive["judged"]:
        interval = f"{naive['share']:.3f} [{naive['low']:.3f}, {naive['high']:.3f}]"
        console.print(f"false negatives among naive negatives: {interval}, {naive['judged']} on {naive['pages']} pages")
    cost = out / LOGS / COST
    if cost.is_file() and report["examples"]:
        spent = json.loads(cost.read_text(encoding="utf-8"))
        calls = (
            f"{spent['calls']} calls ({spent['calls_per_example']:.2f} per example), {spent['cached']} from the cache"
        )
        console.print(f"{calls}, cost {spent['cost']:g} ({spent['cost_per_example']:g} per example)", soft_wrap=True)
