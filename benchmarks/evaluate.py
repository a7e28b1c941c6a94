"""The evaluation's own time: scoring, everything outside model forwards, cache sizes. Prints one JSON line.

All seconds are CPU time of this process (with --threads 1 what an idle machine's clock would show), so another load on
the machine doesn't count.

    python benchmarks/evaluate.py --tiles 24      (about a minute; needs runs/quickstart of `make quickstart`)
    python benchmarks/evaluate.py                 (all tiles of the quickstart)

- ``scoring``: seconds to score 1 M hits (10,000 questions x 100 hits, three cut-offs by page and tile with chance and
  intervals of 1,000 resamples), median of three; wanted < 2.
- ``overhead_share``: share of an evaluation's time that isn't spent in ``Encoder.forward`` or ``Reader.generate``,
  both timed inside the same run: one checkpoint, BM25, two readers' cells, report and all. Wanted <= 0.05 on the
  default corpus. No call to a language model is made.
- ``checkpoint``: time of a run with that checkpoint alone, over its forwards + decoding of all tiles (timed alone
  in this process); wanted <= 1.05. ``extrapolated_s``: forwards + decoding times 7,426 tiles over those here.
- ``cache``: bytes by kind, and all of them over the bytes of vectors and answers; wanted about 1.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tilewright.configs.load import load
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import QAPair, read_jsonl, write_jsonl
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.cache import Cache
from tilewright.eval.evaluate import STAGE, Config
from tilewright.eval.metrics import RowResult, Scorer
from tilewright.eval.parts import Question
from tilewright.eval.questions import Pool
from tilewright.eval.rows import RowSpec
from tilewright.train.encoder import Encoder
from tilewright.train.reader import Reader

QUESTIONS, HITS, PAGES, TILES_OF_PAGE, MINI = 10_000, 100, 2_000, 5, 7_426


def scoring_seconds() -> float:
    """Median of three."""
    generator = np.random.default_rng(0)
    tiles = {
        f"{page:016x}": tuple(f"{page:016x}-{row:04d}-00" for row in range(TILES_OF_PAGE)) for page in range(PAGES)
    }
    pool = Pool({tile: page for page, mine in tiles.items() for tile in mine}, tiles)
    ids = list(pool.page_of)
    questions = []
    hits = {}
    for number in range(QUESTIONS):
        gold = ids[int(generator.integers(len(ids)))]
        name, page = f"q{number}", pool.page_of[gold]
        questions.append(Question(name, "?", ("a",), frozenset({page}), frozenset({gold}), cluster=page))
        chosen = generator.choice(len(ids), HITS, replace=False).tolist()
        hits[name] = tuple((ids[place], -float(rank)) for rank, place in enumerate(chosen))
    bootstrap = ClusterBootstrap([question.cluster for question in questions], resamples=1000, seed=0)
    found = []
    for _ in range(3):
        started = time.process_time()
        scorer = Scorer(questions, pool, bootstrap, ks=(1, 3, 10), depth=HITS)
        result = RowResult(hits, {}, {})
        scorer.summary(result, scorer.measure(result), 0.02)
        found.append(time.process_time() - started)
    return statistics.median(found)


@contextmanager
def timed(owner: Any, name: str, spent: dict[str, float]) -> Iterator[None]:
    """Add the seconds inside ``owner.name`` to ``spent``."""
    original: Callable[..., Any] = getattr(owner, name)

    def measured(*arguments: Any, **options: Any) -> Any:
        started = time.process_time()
        try:
            return original(*arguments, **options)
        finally:
            spent[name] = spent.get(name, 0.0) + time.process_time() - started

    setattr(owner, name, measured)
    try:
        yield
    finally:
        setattr(owner, name, original)


def run_timed(config: Config) -> tuple[float, dict[str, float]]:
    """(seconds, seconds by kind of forward) of a run."""
    spent: dict[str, float] = {}
    with timed(Encoder, "forward", spent), timed(Reader, "generate", spent):
        started = time.process_time()
        run_stage(STAGE, config)
        return time.process_time() - started, spent


def corpus(runs: Path, count: int | None, folder: Path) -> dict[str, Path]:
    """Stores of ``count`` tiles, half of them gold, compressed and rendered, and the questions about them."""
    compressed, rendered = TileStore.open(runs / "tiles_9x"), TileStore.open(runs / "tiles")
    asked = read_jsonl(runs / "splits" / "test.jsonl", QAPair)
    gold = sorted({pair.tile_id for pair in asked} & set(compressed.tile_ids))[
        : None if count is None else max(1, count // 2)
    ]
    others = [tile_id for tile_id in compressed.tile_ids if tile_id not in set(gold)]
    kept = sorted([*gold, *others][:count])
    for name, store in (("tiles", compressed), ("rendered", rendered)):
        write_store(folder / name / "store", (store.get(tile_id) for tile_id in kept))
    pairs = [pair for pair in asked if pair.tile_id in set(kept)]
    write_jsonl(folder / "pairs.jsonl", pairs)
    return {"tiles": folder / "tiles", "rendered": folder / "rendered", "pairs": folder / "pairs.jsonl"}


def configs(runs: Path, inputs: dict[str, Path], folder: Path) -> tuple[Config, Config]:
    """(a run with readers and report, a checkpoint alone) after the quickstart's own YAML."""
    os.environ["TILEWRIGHT_RUNS"] = str(runs.parent)
    rows = ("trained", "bm25", RowSpec("trained", ("c4", "c9"), "trained", (1,)))
    changes: dict[str, Any] = {
        "rows": rows,
        "compare": (),
        "retrievers": {},
        "pages": None,
        "splits": None,
        "before": (),
    }
    base = load("configs/eval/evaluate/quickstart.yaml", Config)
    changes["checkpoints"] = {"trained": base.checkpoints["trained"]}
    shared = {
        name: getattr(base, name) for name in Config.__dataclass_fields__ if Config.__dataclass_fields__[name].init
    }
    whole = Config(**(shared | changes | inputs | {"out": folder / "whole", "cache": folder / "cache"}))
    alone = Config(
        **(shared | changes | inputs | {"rows": ("trained",), "out": folder / "alone", "cache": folder / "alone_cache"})
    )
    return whole, alone


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=Path, default=Path("runs/quickstart"), help="of `make quickstart`")
    arguments.add_argument("--tiles", type=int, default=None, help="so many of its tiles (default: all)")
    arguments.add_argument("--threads", type=int, default=1)
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = corpus(options.runs.resolve(), options.tiles, folder)
        whole, alone = configs(options.runs.resolve(), inputs, folder)
        total, forwards = run_timed(whole)
        store = TileStore.open(inputs["tiles"])
        started = time.process_time()
        for tile_id in store.tile_ids:
            store.image(tile_id)
        decoding = time.process_time() - started
        one, own = run_timed(alone)
        sizes = Cache(folder / "cache").sizes()
    bound = own["forward"] + decoding
    figures = {
        "benchmark": "evaluate",
        "threads": options.threads,
        "tiles": len(store.tile_ids),
        "scoring": {"hits": QUESTIONS * HITS, "seconds": round(scoring_seconds(), 3), "wanted": 2.0},
        "overhead_share": round(1 - sum(forwards.values()) / total, 4),
        "whole_s": round(total, 2),
        "forwards_s": {kind: round(value, 2) for kind, value in forwards.items()},
        "checkpoint": {
            "ratio": round(one / bound, 3),
            "run_s": round(one, 2),
            "forward_s": round(own["forward"], 2),
            "decoding_s": round(decoding, 2),
            "extrapolated_s": round(bound * MINI / len(store.tile_ids), 1),
            "extrapolated_to_tiles": MINI,
        },
        "cache": {"bytes": dict(sizes), "over_vectors_and_answers": _share(sizes)},
    }
    print(json.dumps(figures))


def _share(sizes: Any) -> float:
    return round(sum(sizes.values()) / (sizes["vectors"] + sizes["answers"]), 3)


if __name__ == "__main__":
    main()
