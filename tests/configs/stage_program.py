"""A real stage run in a subprocess by test_stage.py: doubles numbers, slowly enough to be killed."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.items import ItemError, process_items
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main, rank_and_world


@dataclass(frozen=True)
class Config:
    """Double ``count`` numbers read from ``numbers``."""

    out: Path
    numbers: Path = input_path()
    pause_s: float = 0.0
    factor: int = 2
    broken: tuple[int, ...] = ()
    max_error_share: float = execution(default=0.0)
    folder_first: bool = False


def double(config: Config, inputs: Inputs, out: Path) -> Counts:
    def work(todo: Sequence[str]) -> Iterator[tuple[str, Any]]:
        for number in todo:
            time.sleep(config.pause_s)
            print("working", number, flush=True)
            yield number, ItemError("broken") if int(number) in config.broken else int(number) * config.factor

    if config.folder_first:
        (out / "html").mkdir(exist_ok=True)
    numbers = inputs["numbers"].read_text().split()
    values = process_items("double", numbers, str, work, out, max_error_share=config.max_error_share)
    (out / "values.txt").write_text("".join(f"{key} {value}\n" for key, value in values.items()))
    return {"numbers": len(values), "dropped_broken": len(numbers) - len(values)}


def both_ranks(config: Config, inputs: Inputs, out: Path) -> Counts:
    marker = out / ".rank-1"
    if rank_and_world()[0] == 0:
        while not marker.exists():  # as a collective would wait
            time.sleep(0.01)
        (out / "values.txt").write_text("from rank 0\n")
    else:
        print("rank 1 worked too", flush=True)
        marker.touch()
    return {}


STAGE = Stage("double", Config, double)
DISTRIBUTED = Stage("both", Config, both_ranks, distributed=True)

if __name__ == "__main__":
    which = sys.argv.pop(1) if sys.argv[1] in ("STAGE", "DISTRIBUTED") else "STAGE"
    main(globals()[which])
