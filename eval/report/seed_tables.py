"""Tables of arms that were trained with several seeds: mean, spread over seeds, interval over questions."""

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.eval.metrics import JUDGED, LEVELS, STRING
from tilewright.eval.report.markup import Markup, join, table, tag
from tilewright.eval.report.tables import difference_cell
from tilewright.eval.seed_arms import ACCURACY
from tilewright.eval.wording import LEVEL_WORDS, NONE, interval, measure_title, measures, percent

Metrics = Mapping[str, Any]
_TITLES = LEVEL_WORDS | {JUDGED: f"by a judge ({JUDGED})", ACCURACY: "of readers' accuracy"}
_LEVELS = (*LEVELS, STRING, JUDGED, ACCURACY)


def seed_tables(metrics: Metrics) -> list[Markup]:
    """A table of means and one of paired differences for each level; empty without arms."""
    seeds = metrics.get("seeds")
    if not seeds:
        return []
    found = [arms_table(metrics, level) for level in _LEVELS]
    found += [arm_difference_table(metrics, level) for level in _LEVELS]
    missing = [f"{arm}: not run: {', '.join(entry['not_run'])}" for arm, entry in seeds["arms"].items() if _out(entry)]
    notes = [tag("p", line, class_="warn") for line in missing]
    return [tag("h2", "Over training seeds"), *notes, *[one for one in found if one], tag("p", _NOTE, class_="note")]


_NOTE = (
    "sd: sample standard deviation over seeds of the arm's figure. Intervals are over questions: each question's value"
    " is averaged over the seeds, then gold pages are resampled; they don't hold the chance of training."
)


def _out(entry: Metrics) -> bool:
    return "not_run" in entry


def _figures(metrics: Metrics, level: str) -> list[str]:
    if level == JUDGED:  # down to the depth that was judged
        return next((list(entry[level]) for entry in metrics["seeds"]["arms"].values() if level in entry), [])
    return list(metrics["graders"]["columns"]) if level == ACCURACY else measures(metrics)


def _titles(metrics: Metrics, level: str) -> list[str]:
    names = _figures(metrics, level)
    return names if level == ACCURACY else [measure_title(name, metrics) for name in names]


def arms_table(metrics: Metrics, level: str) -> Markup:
    """Every arm's means at one level, and the arms of its kind that weren't run; empty without a mean."""
    arms = metrics["seeds"]["arms"] if metrics.get("seeds") else {}
    if not any(level in entry for entry in arms.values()):
        return Markup("")
    names = _figures(metrics, level)
    rows: list[list[object]] = []
    for arm, entry in arms.items():
        if level in entry:
            cells = [_mean(entry[level][name]) for name in names]
            rows.append([tag("b", arm), len(entry["rows"]), *cells, *_counted(entry[level], names)])
        elif _out(entry) and (level == ACCURACY) == (entry["rows"][0] not in metrics["rows"]):
            warning = tag("span", f"not run: {', '.join(entry['not_run'])}", class_="warn")
            rows.append([join([tag("b", arm), warning], " "), len(entry["rows"]), *[NONE] * (len(names) + 2)])
    head = ["Arm", "Seeds", *_titles(metrics, level), "Questions", "Pages"]
    return table(head, rows, f"Mean over seeds {_TITLES[level]}, percent")


def _counted(figures: Metrics, names: Sequence[str]) -> list[str]:
    """On how many questions and pages the figures are; more than one number where graders gave no score on some."""
    return [
        " / ".join(dict.fromkeys(str(figures[name][what]) for name in names)) for what in ("n_questions", "n_pages")
    ]


def _mean(estimate: Metrics) -> Markup:
    spread = NONE if estimate["sd"] is None else f"sd {percent(estimate['sd'])}"
    return join([tag("b", percent(estimate["value"])), tag("small", interval(estimate)), tag("small", spread)], " ")


def arm_difference_table(metrics: Metrics, level: str) -> Markup:
    """Paired differences of arms at one level; empty without any."""
    if not metrics.get("seeds"):
        return Markup("")
    names = _figures(metrics, level)
    rows = [
        [
            f"{pair['row']} − {pair['against']}, paired",
            *[difference_cell(pair[level][name]) for name in names],
            _counted(pair[level], names)[0],
        ]
        for pair in metrics["seeds"]["differences"]
        if level in pair
    ]
    head = ["Arms", *_titles(metrics, level), "Questions"]
    return table(head, rows, f"Paired differences over seeds {_TITLES[level]}, points") if rows else Markup("")
