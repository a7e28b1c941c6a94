"""SPIRE's cost on one core: HTML to a numbered tree with sentence marks and seeds, a page. Prints one JSON line.

    python benchmarks/spire.py PAGES [PAGES ...] [--count 40] [--segmenter nupunkt]   (folders of HTML; half a minute)

CPU milliseconds, the best of several runs, for each folder at the median page, the mean, the slowest. ``parse``: HTML
to our tree; ``tree_and_seeds``: that, tables, lines, sentences, marks, paths; ``context``: the texts of all seeds with
their context. ``seeds_to_parse``: median of the pages' ratios, within one run. ``within``: share of pages below 30 ms.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

from evidence_parts.pages import best_ms, pages_of

from tilewright.eval.evidence.html_tree import PARSER, parse_html
from tilewright.eval.evidence.spire.document import build_document
from tilewright.eval.evidence.spire.segmenters import Segmenter
from tilewright.eval.evidence.spire.views import seed_text

RUNS, WANTED_MS = 3, 30.0


def measure(pages: Sequence[str], segmenter: Segmenter) -> dict[str, Any]:
    """The figures of one folder."""
    rows = []
    for html in pages:
        parse = best_ms(lambda html=html: parse_html(html), RUNS)
        seeds = best_ms(lambda html=html: build_document(html, segmenter), RUNS)
        document = build_document(html, segmenter)
        started = time.process_time()
        for seed in document.seeds:
            seed_text(document, seed.number)
        context = 1000 * (time.process_time() - started)
        rows.append((len(html), len(document.seeds), parse, seeds, context, seeds / parse))
    names = ("chars", "seeds", "parse_ms", "tree_and_seeds_ms", "context_ms", "seeds_to_parse")
    columns = list(zip(*rows, strict=True))
    medians = {name: round(statistics.median(column), 2) for name, column in zip(names, columns, strict=True)}
    times = columns[3]
    return {"pages": len(pages)} | medians | {
        "mean_ms": round(statistics.mean(times), 2),
        "slowest_ms": round(max(times), 2),
        "ms_per_10k_chars": round(10_000 * sum(times) / sum(columns[0]), 2),
        "within": round(sum(value <= WANTED_MS for value in times) / len(times), 3),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--segmenter", choices=("nupunkt", "rule"), default="nupunkt")
    options = parser.parse_args()
    segmenter = Segmenter(options.segmenter)
    segmenter.spans("It loads here. Not in the figures.")
    folders = {str(folder.name): pages_of(folder, options.count) for folder in options.pages}
    made = {name: measure(pages, segmenter) for name, pages in folders.items() if pages}
    print(json.dumps({"parser": PARSER, "segmenter": segmenter.identity, "wanted_ms": WANTED_MS, "folders": made}))


if __name__ == "__main__":
    main()
