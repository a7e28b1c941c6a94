"""Time of Tessera's parts on one core: parse and units of a page, prefilter of 1,000 units. Prints one JSON line.

    python benchmarks/tessera.py PAGES [PAGES ...] [--count 40]      (folders of HTML files; about a minute)

CPU milliseconds, the best of several runs, for each folder at the median page. ``parse``: lexbor alone, HTML to its
tree in C. ``tree``: parse into our tree, which Python can read. ``units``: parse, tree and units.
``units_to_parse`` and ``units_to_tree``: medians of the pages' ratios. Ratios count within one run.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from evidence_parts.pages import best_ms, pages_of
from selectolax.lexbor import LexborHTMLParser

from tilewright.eval.evidence.html_tree import PARSER, parse_html
from tilewright.eval.evidence.prefilter import UnitIndex, prefilter
from tilewright.eval.evidence.unit_builder import build_units

RUNS, POOL, QUERIES = 5, 1_000, 50


def measure(pages: Sequence[str]) -> dict[str, float]:
    """The figures of one folder."""
    rows = []
    for html in pages:
        parse, tree = (
            best_ms(lambda html=html: LexborHTMLParser(html), RUNS),
            best_ms(lambda html=html: parse_html(html), RUNS),
        )
        units = best_ms(lambda html=html: build_units(parse_html(html), page_id="p"), RUNS)
        made = build_units(parse_html(html), page_id="p")
        index = best_ms(lambda made=made: UnitIndex.of(made), RUNS)
        rows.append((len(html), len(made), parse, tree, units, index, units / parse, units / tree))
    names = ("chars", "n_units", "parse_ms", "tree_ms", "units_ms", "index_ms", "units_to_parse", "units_to_tree")
    medians = map(statistics.median, zip(*rows, strict=True))
    return {"pages": len(pages)} | {name: round(value, 2) for name, value in zip(names, medians, strict=True)}


def measure_prefilter(pages: Sequence[str]) -> dict[str, float]:
    """Milliseconds of a query over 1,000 units of the first pages, whose indexes were made before."""
    indexes, total = [], 0
    for number, html in enumerate(pages):
        units = build_units(parse_html(html), page_id=str(number))[: POOL - total]
        indexes.append(UnitIndex.of(units))
        total += len(units)
    texts = [unit.body for index in indexes for unit in index.units]
    queries = [" ".join(text.split()[:8]) for text in texts[:: max(1, len(texts) // QUERIES)][:QUERIES]]
    taken = [best_ms(lambda query=query: prefilter(query, indexes, 100), RUNS) for query in queries]
    return {"units": total, "median_ms": round(statistics.median(taken), 2), "max_ms": round(max(taken), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--count", type=int, default=40)
    options = parser.parse_args()
    folders = {folder.name: pages_of(folder, options.count) for folder in options.pages}
    everything = [html for pages in folders.values() for html in pages]
    made = {name: measure(pages) for name, pages in folders.items()}
    print(json.dumps({"parser": PARSER, "folders": made, "prefilter": measure_prefilter(everything)}))


if __name__ == "__main__":
    main()
