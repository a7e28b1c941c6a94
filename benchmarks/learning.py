"""Does a model with random weights learn to read, and what does LoRA on each tower bring? Prints one JSON line.

    python benchmarks/learning.py --runs FOLDER [--base-only] [--seeds 3]      (1 core: 4 CPU minutes, with LoRA 20)

- ``base``: the stages of configs/learning.yaml, then Recall@3 on the held-out tiles with its 95 % interval (cluster
  bootstrap over tiles), ``chance``, and the CPU seconds (user + system) that this call spent on each stage. Wanted:
  ``low`` >= 5 x chance, in at most 360 s.
- ``shifted``: the same held-out titles in another font and layout: Recall@3 before LoRA and after it on the language
  model's attention (``llm``), the vision tower (``vit``) or ``both``: mean and standard deviation over the seeds, and
  paired differences of the arms with intervals (each question's hits averaged over the seeds).

Finished stages in FOLDER aren't run again: a second call goes on where the first was.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from tilewright.data_gen.records import QAPair
from tilewright.data_gen.splits import pages_of_split
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of
from tilewright.eval.bootstrap import ClusterBootstrap, Values
from tilewright.train.chance import expected_success
from tilewright.train.encoder import load_encoder
from tilewright.train.split_files import PAGES_FILE, read_pairs
from tilewright.train.validation import rank_tiles

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
ARMS = ("llm", "vit", "both")
K = 3
RESAMPLES = 10_000


class HeldOut:
    """The validation questions of a corpus, to be searched among the validation tiles."""

    def __init__(self, corpus: Path) -> None:
        self.store = TileStore.open(corpus)
        self.pairs: list[QAPair] = read_pairs(corpus / "splits" / "validation.jsonl")
        pages = pages_of_split(corpus / "splits" / PAGES_FILE, "validation")
        self.tile_ids = [tile_id for tile_id in self.store.tile_ids if page_of(tile_id) in pages]
        self.bootstrap = ClusterBootstrap([pair.page_id for pair in self.pairs], resamples=RESAMPLES, seed=0)

    @property
    def chance(self) -> float:
        """Recall@K of a random order: each question has one right tile."""
        return expected_success(len(self.tile_ids), 1, K)

    def hits(self, checkpoint: Path) -> Values:
        """[Q] 1.0 where the right tile is among the first K."""
        encoder = load_encoder(checkpoint)
        queries = encoder.encode_queries([pair.query for pair in self.pairs])
        tiles = encoder.encode_tiles([self.store.image(tile_id) for tile_id in self.tile_ids])
        query_ids = [pair.query_id for pair in self.pairs]
        rankings = rank_tiles(queries, query_ids, tiles, self.tile_ids, K)
        return np.array([float(pair.tile_id in rankings[pair.query_id]) for pair in self.pairs])


def run_stage_file(config: Path, runs: Path, *overrides: str) -> float:
    """Run the stage of a config file in a process of its own, on one thread; its CPU seconds, user and system."""
    package, stage = config.relative_to(CONFIGS).parts[:2]
    command = [sys.executable, "-m", f"tilewright.{package}.{stage}", str(config), *overrides]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    variables = {"TILEWRIGHT_RUNS": str(runs), "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    subprocess.run(command, env=os.environ | variables, check=True, stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def learn_base(runs: Path) -> dict[str, Any]:
    """The recipe from random weights: CPU seconds by stage, Recall@K with its interval, chance."""
    stages = yaml.safe_load((CONFIGS / "learning.yaml").read_text(encoding="utf-8"))["stages"]
    cpu = {Path(stage).parts[1]: round(run_stage_file(CONFIGS / stage, runs), 1) for stage in stages}
    held_out = HeldOut(runs / "learning/corpus")
    estimate = held_out.bootstrap.mean(held_out.hits(runs / "learning/embedder/checkpoint"))
    counts = json.loads((runs / "learning/embedder/manifest.json").read_text(encoding="utf-8"))["counts"]
    sizes = {"tiles": len(held_out.tile_ids), "parameters": counts["trainable_parameters"]}
    return {"recall_at_3": asdict(estimate), "chance": held_out.chance, "cpu_s": cpu, **sizes}


def adapt(runs: Path, seeds: int) -> dict[str, Any]:
    """LoRA arms on the shifted corpus, ``seeds`` runs each."""
    run_stage_file(CONFIGS / "data_gen/make_title_tiles/learning_shifted.yaml", runs)
    held_out = HeldOut(runs / "learning/shifted")
    before = held_out.hits(runs / "learning/embedder/checkpoint")
    figures: dict[str, Any] = {"chance": held_out.chance, "before": asdict(held_out.bootstrap.mean(before))}
    hits = {arm: np.stack([arm_hits(runs, held_out, arm, seed) for seed in range(1, seeds + 1)]) for arm in ARMS}
    for arm, found in hits.items():
        by_seed = [float(value) for value in found.mean(axis=1)]
        spread = statistics.stdev(by_seed) if seeds > 1 else None
        gain = held_out.bootstrap.difference(found.mean(axis=0), before)
        figures[arm] = {"mean": statistics.mean(by_seed), "sd": spread, "seeds": by_seed, "over_before": asdict(gain)}
    for left, right in (("vit", "llm"), ("both", "llm"), ("both", "vit")):
        difference = held_out.bootstrap.difference(hits[left].mean(axis=0), hits[right].mean(axis=0))
        figures[f"{left}_over_{right}"] = asdict(difference)
    return figures


def arm_hits(runs: Path, held_out: HeldOut, arm: str, seed: int) -> Values:
    """[Q] hits of one LoRA run."""
    out = runs / f"learning/lora_{arm}_{seed}"
    config = CONFIGS / f"train/train_embedder/learning_lora_{arm}.yaml"
    run_stage_file(config, runs, f"out={out}", f"seed={seed}")
    return held_out.hits(out / "checkpoint")


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--base-only", action="store_true", help="without the LoRA arms")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each LoRA arm")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = options.runs.resolve()
    figures: dict[str, Any] = {"base": learn_base(runs)}
    if not options.base_only:
        figures["shifted"] = adapt(runs, options.seeds)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
