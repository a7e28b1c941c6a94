"""Full tiles a second on one core: decoding, and encode_tiles, apart and together."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import TILE_HEIGHT_PX, TILE_WIDTH_PX
from tilewright.train.encoder import load_encoder

AT_ONCE = 4  # full tiles of one batch of encode_tiles


def speed_figures(folder: Path, store: TileStore, rounds: int) -> dict[str, Any]:
    """Medians over ``rounds`` of AT_ONCE tiles, after one that warms up; by the clock, and by CPU time where others
    work on the same core. ``forward``: of encode_tiles, what the model takes. None without a tile of full size."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        full = (TILE_WIDTH_PX, TILE_HEIGHT_PX)
        chosen = [tile_id for tile_id in store.tile_ids if store.size_px(tile_id) == full][: AT_ONCE * (rounds + 1)]
        if len(chosen) < 2 * AT_ONCE:
            return {"skipped": f"wanted {2 * AT_ONCE} tiles of {full} px, found {len(chosen)}"}
        return _measure(folder, store, chosen)
    finally:
        torch.set_num_threads(threads)


def _measure(folder: Path, store: TileStore, chosen: list[str]) -> dict[str, Any]:
    encoder = load_encoder(folder)
    times: dict[str, list[tuple[float, float]]] = {"decode": [], "encode_tiles": [], "patches": [], "forward": []}
    for start in range(0, len(chosen) - AT_ONCE + 1, AT_ONCE):
        ids = chosen[start : start + AT_ONCE]
        images, decode = timed(lambda ids: [store.image(tile_id) for tile_id in ids], ids)
        _, encode = timed(encoder.encode_tiles, images)
        batch, patches = timed(encoder.tile_batch, images)
        with torch.no_grad():
            _, forward = timed(encoder.forward, batch)
        for name, value in (("decode", decode), ("encode_tiles", encode), ("patches", patches), ("forward", forward)):
            times[name].append(value)
    figures: dict[str, Any] = {"tiles_a_round": AT_ONCE, "rounds": len(times["decode"]) - 1, "threads": 1}
    for place, clock in enumerate(("wall", "cpu")):
        seconds = {name: statistics.median(value[place] for value in found[1:]) for name, found in times.items()}
        figures[clock] = {
            "encode_tiles_a_second": round(AT_ONCE / seconds["encode_tiles"], 2),
            "decode_and_encode_a_second": round(AT_ONCE / (seconds["decode"] + seconds["encode_tiles"]), 2),
            **{f"{name}_ms": round(1000 * value / AT_ONCE, 1) for name, value in seconds.items()},
        }
    return figures


def timed(work: Callable[[Any], Any], argument: Any) -> tuple[Any, tuple[float, float]]:
    """(result, (seconds by the clock, CPU seconds of this process))."""
    started, cpu = time.perf_counter(), time.process_time()
    result = work(argument)
    return result, (time.perf_counter() - started, time.process_time() - cpu)
