"""How figures are put into words, the same on the terminal and in the report."""

from collections.abc import Mapping
from typing import Any

from tilewright.eval.metrics import NOT_RUN, PAGE, STRING, TILE
from tilewright.eval.sources import SEEN
from tilewright.train.pixels import visual_tokens

LEVEL_WORDS = {PAGE: "by gold page", TILE: "by gold tile", STRING: "by answer string (evidence_recall_string)"}
NONE = "–"


def percent(value: float | None) -> str:
    """0.1234 as ``12.3``; a dash for None."""
    return NONE if value is None else f"{100 * value:.1f}"


def interval(estimate: Mapping[str, Any], signed: bool = False) -> str:
    """``[8.1, 17.0]`` in percent; a dash where none can be given."""
    if estimate["low"] is None or estimate["high"] is None:
        return NONE
    sign = "+" if signed else ""
    return f"[{100 * estimate['low']:{sign}.1f}, {100 * estimate['high']:{sign}.1f}]"


def points(value: float | None) -> str:
    """A difference of shares in points: ``+1.2``."""
    return NONE if value is None else f"{100 * value:+.1f}"


def p_value(p: float | None) -> str:
    """``p = 0.012``, ``p < 0.001``; a dash for None."""
    if p is None:
        return NONE
    return "p < 0.001" if p < 0.0005 else f"p = {p:.3f}"


def not_above_chance(estimate: Mapping[str, Any]) -> bool:
    """Whether the interval reaches down to what a random ranking scores; False where there is no interval."""
    low, chance = estimate["low"], estimate["chance"]
    return low is not None and chance is not None and low <= chance


def measures(metrics: Mapping[str, Any]) -> list[str]:
    """Names of the figures in the order shown: recall@k by rising k, then mrr."""
    return [*(f"recall@{k}" for k in metrics["settings"]["ks"]), "mrr"]


def measure_title(name: str, metrics: Mapping[str, Any]) -> str:
    """``Recall@3``, ``MRR@100``."""
    return f"MRR@{metrics['settings']['depth']}" if name == "mrr" else name.replace("recall", "Recall")


def row_status(row: Mapping[str, Any]) -> str:
    """What must be said beside a row's name; empty for a row that is complete and without errors."""
    if row["status"] == NOT_RUN:
        return f"not run: {row['reason']}"
    parts = [row["status"].upper()] if row["status"] != "complete" else []
    parts += [f"{row['n_errors']} errors"] if row["n_errors"] else []
    parts += [f"{row['tiles_failed']} tiles failed"] if row["tiles_failed"] else []
    return ", ".join(parts)


def pool_sentence(metrics: Mapping[str, Any]) -> str:
    """What was searched, and of what whole."""
    pool, questions = metrics["pool"], metrics["questions"]
    sentence = (
        f"{_count(questions['n_questions'], 'test question')} on {_count(questions['n_pages'], 'page')}, each searched"
        f" among all {_count(pool['n_tiles'], 'tile')} of {_count(pool['n_pages'], 'page')}."
    )
    if pool["corpus_tiles"] > pool["n_tiles"]:
        whole = pool["corpus_pages"] - pool["pages_incomplete"]
        sentence += (
            f" These tiles are a sample: the corpus has {pool['corpus_tiles']} tiles on {pool['corpus_pages']} pages;"
            f" {whole} pages are here whole. Recall among all of them would most likely be lower."
        )
    elif pool["pages_incomplete"]:
        sentence += f" Not captured to the end: {_count(pool['pages_incomplete'], 'page')}."
    if questions["gold_outside_pool"]:
        sentence += (
            f" The gold tile of {questions['gold_outside_pool']} questions is not in the pool: they count as missed."
        )
    for split in SEEN:
        count = questions[f"on_{split}_pages"]
        if count:
            sentence += f" {count} questions are about pages of the {split} split: NOT held out."
    return sentence


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def pixel_sentence(metrics: Mapping[str, Any]) -> str | None:
    """At how many visual tokens the embedders see a whole tile; None without an embedder row."""
    facts = [row["facts"] for row in metrics["rows"].values() if "visual_tokens" in row.get("facts", {})]
    if not facts:
        return None
    seen = {(fact["visual_tokens"], fact["enlarge"]): (fact["min_pixels"], fact["max_pixels"]) for fact in facts}
    parts = [
        f"{tokens} visual tokens ({f'enlarged {enlarge:g} times, ' if enlarge > 1 else ''}pixel limits {low} to {high})"
        for (tokens, enlarge), (low, high) in seen.items()
    ]
    width, height = facts[0]["tile_px"]
    full = visual_tokens(width, height)
    shrunk = f": shrunk, full size is {full}" if max(tokens for tokens, _ in seen) < full else ""
    return f"The embedder sees a tile of {width} × {height} px at {', '.join(parts)}{shrunk}."


def difference_interval(estimate: Mapping[str, Any]) -> str:
    """The interval of a paired difference, or why there is none."""
    if estimate["low"] is not None:
        return interval(estimate, signed=True)
    return "no question differs" if estimate["value"] == 0 else "no interval"


def learning_sentence(metrics: Mapping[str, Any]) -> str | None:
    """The learning check: does the pipeline learn what it was shown? None if no such run was given."""
    check = metrics["learning_check"]
    if check is None:
        return None
    return (
        f"Training Recall@1 on {check['n_examples']} training examples, searched among all {check['n_tiles']} training"
        f" tiles: {check['recall@1']:.3f} (wanted at least {check['wanted']:.1f};"
        f" {'reached' if check['recall@1'] >= check['wanted'] else 'NOT reached'})."
    )


def ran(row: Mapping[str, Any]) -> bool:
    """Whether a row was run."""
    return bool(row["status"] != NOT_RUN)


def plain(value: object) -> str:
    """A setting, fact or count as text: the items of a list, and the names and values of a mapping, between commas."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {plain(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(item) for item in value)
    return str(value)
