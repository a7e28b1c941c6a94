"""Samples/s of train_embedder against sentence-transformers and colpali-engine, all in one interpreter, in turns."""

import json
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tilewright.train.encoder import load_encoder
from train_embedder_parts.running import environment, last_json
from train_embedder_parts.stage_run import settings
from train_embedder_parts.workload import Workload, batches

PARTS = Path(__file__).parent
STEPS = 4
KEEP_MIB = 8192
OWN = ("ours", "ours_kept")
WANTED = {"documented": ">= 1.5", "linear_patch": ">= 1.0"}
LIKE = {
    "sentence-transformers": "GradCache, chunk as their mini_batch_size",
    "colpali-engine": "whole batch at once with gradient checkpointing, as theirs",
}


def our_settings(workload: Workload, peer: str, out: Path, *, kept: bool = False) -> dict[str, Any]:
    """Our run that does what the peer's does; ``kept``: our way, all graphs of GradCache kept."""
    size = workload.size
    like: dict[str, Any] = {"chunking": {"rows": size.chunk, "keep_mib": KEEP_MIB if kept else 0}}
    if peer == "colpali-engine" and not kept:
        like = {"chunking": {"keep_mib": None}, "gradient_checkpointing": True}
    paths = {name: str(path) for name, path in workload.inputs().items()}
    return settings(out=str(out), steps=STEPS, batch_size=size.batch, **like, **paths)


def run_ours(python: str, workload: Workload, peer: str, *, kept: bool = False) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        values = our_settings(workload, peer, Path(folder) / "out", kept=kept)
        command = [python, str(PARTS / "stage_run.py"), json.dumps(values)]
        return last_json(subprocess.run(command, env=environment(), capture_output=True, text=True, check=False))


def run_peer(python: str, workload: Workload, peer: str, *, linear: bool) -> dict[str, Any]:
    size = workload.size
    command = [python, str(PARTS / "peer_program.py"), peer, str(workload.model), str(workload.pairs)]
    command += [str(size.batch), str(size.chunk), str(STEPS), *(["--linear"] if linear else [])]
    return last_json(subprocess.run(command, env=environment(), capture_output=True, text=True, check=False))


def samples_per_s(result: dict[str, Any], batch: int) -> float:
    """From the median of the steps after the first; a peer gives none for that one."""
    steps = result["step_s"]
    return batch / statistics.median(steps[len(steps) - (STEPS - 1) :])


def compare(python: str, workload: Workload, peer: str, rounds: int) -> dict[str, Any]:
    """Both columns of a peer, or the error that it ended with."""
    batch = workload.size.batch
    columns = [*OWN, *WANTED]
    speeds: dict[str, list[float]] = {column: [] for column in columns}
    found: dict[str, Any] = {"ours_does": LIKE[peer]}
    for turn in range(rounds):
        for column in columns if turn % 2 == 0 else reversed(columns):
            try:
                if column in OWN:
                    result = run_ours(python, workload, peer, kept=column == "ours_kept")
                    found["data_wait_share"] = result["data_wait_share"][1:]
                else:
                    result = run_peer(python, workload, peer, linear=column == "linear_patch")
                    found["their_tokens_of_a_pair"] = result["tokens_of_a_pair"]
            except RuntimeError as error:
                return found | {"error": str(error)[-600:]}
            speeds[column].append(samples_per_s(result, batch))
    for column, wanted in WANTED.items():
        found[column] = {"wanted": wanted}
        for name, mine in zip(("found", "found_kept"), OWN, strict=True):
            ratios = [ours / theirs for ours, theirs in zip(speeds[mine], speeds[column], strict=True)]
            found[column][name] = round(statistics.median(ratios), 3)
            found[column][f"{name}_of_rounds"] = [round(ratio, 3) for ratio in ratios]
    found["samples_per_s"] = {name: [round(value, 2) for value in values] for name, values in speeds.items()}
    return found


def peer_figures(python: str, workload: Workload, rounds: int) -> dict[str, Any]:
    """Both peers, and the versions that ``python`` has of them."""
    names = ["torch", "transformers", "sentence-transformers", "colpali-engine", "torchvision", "peft"]
    code = f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(n) for n in {names}}}))"
    versions = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    encoder = load_encoder(workload.model)
    own = sum(batch.input_ids.shape[1] for batch in batches(workload, encoder, 1))
    found: dict[str, Any] = {"versions": last_json(versions), "rounds": rounds, "our_tokens_of_a_pair": own}
    return found | {peer: compare(python, workload, peer, rounds) for peer in LIKE}
