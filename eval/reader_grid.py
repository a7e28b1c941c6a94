"""The reader grid: every reader x retriever x compression on the same questions, and what first hits cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import EvalRecord, QAPair, write_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.metrics import RowResult
from tilewright.eval.questions import clusters, subset
from tilewright.eval.readers import GOLD, Cell, answer_tasks, records_of, summary, tasks_of
from tilewright.train.compress import size
from tilewright.train.pixels import policy_tokens
from tilewright.train.reader import Reader


@dataclass(frozen=True)
class ReaderConfig:
    """``tiles_from``: rows whose first ``tiles`` hits a reader is given, or ``gold`` for the gold tile.

    ``compressions`` >= 1 scale each side by 1/√c. ``questions``: how many, chosen by digest of their ids.
    """

    tiles_from: tuple[str, ...]
    compressions: tuple[float, ...]
    questions: int
    tiles: int
    max_new_tokens: int

    def __post_init__(self) -> None:
        if not self.tiles_from or not self.compressions or min(self.compressions) < 1:
            raise ValueError("wanted at least one of tiles_from and of compressions, each compression >= 1")
        if min(self.questions, self.tiles, self.max_new_tokens) < 1:
            raise ValueError("wanted questions, tiles and max_new_tokens >= 1")

    @property
    def retrievers(self) -> list[str]:
        """The rows that ``tiles_from`` names."""
        return [name for name in self.tiles_from if name != GOLD]


@dataclass(frozen=True)
class Grid:
    """Records of each cell, its summary for metrics.json, and token costs of first hits {row: [{as, tokens}]}."""

    records: Mapping[Cell, Sequence[EvalRecord]]
    summaries: Sequence[dict[str, Any]]
    costs: Mapping[str, Sequence[dict[str, Any]]]

    def of(self, pair: QAPair) -> dict[Cell, EvalRecord]:
        """The question's record in each cell; empty if it wasn't among those asked."""
        found = ((cell, record) for cell, records in self.records.items() for record in records)
        return {cell: record for cell, record in found if record.query_id == pair.query_id}


NO_GRID = Grid({}, (), {})


@dataclass(frozen=True)
class Asked:
    """What the grid is asked on. ``urls``: {page_id: url}; ``seed`` chooses the questions and drives the intervals."""

    pairs: Sequence[QAPair]
    store: TileStore
    results: Mapping[str, RowResult]
    urls: Mapping[str, str]
    seed: int
    resamples: int
    confidence: float
    max_error_share: float


def read_grid(config: ReaderConfig, readers: Mapping[str, Reader], asked: Asked, out: Path) -> Grid:
    """Answer with every reader ({name: reader}); write records/{cell}.jsonl below ``out``.

    Raises InputError if ``tiles_from`` names a row that wasn't run.
    """
    for name in config.retrievers:
        if name not in asked.results:
            raise InputError(f"readers.tiles_from: row {name!r} was not run (its tool is missing), so it has no tiles")
    pairs = subset(asked.pairs, config.questions, asked.seed, "readers")
    cells = [
        Cell(reader, given, compression)
        for given in config.tiles_from
        for reader in readers
        for compression in config.compressions
    ]
    tasks = {cell: tasks_of(cell, pairs, asked.results, config.tiles) for cell in cells}
    every = [task for mine in tasks.values() for task in mine]
    answers, errors = answer_tasks(readers, every, asked.store, out, max_new_tokens=config.max_new_tokens)
    records = {cell: records_of(cell, pairs, tasks[cell], answers, errors, asked.urls) for cell in cells}
    bootstrap = ClusterBootstrap(
        clusters(pairs), resamples=asked.resamples, seed=asked.seed, confidence=asked.confidence
    )
    summaries = [summary(cell, pairs, records[cell], bootstrap, asked.max_error_share) for cell in cells]
    (out / "records").mkdir(exist_ok=True)
    for cell, mine in records.items():
        write_jsonl(out / "records" / f"{cell.name}.jsonl", mine)
    return Grid(records, summaries, _costs(next(iter(readers.values())), config, asked))


def _costs(reader: Reader, config: ReaderConfig, asked: Asked) -> dict[str, list[dict[str, Any]]]:
    """Mean tokens of each question's first hit as a row delivers it, in the reader's own tokens."""
    costs: dict[str, list[dict[str, Any]]] = {}
    for name, result in asked.results.items():
        first = [hits[0][0] for hits in result.hits.values() if hits]
        if not first:
            continue
        if result.texts is not None:
            lengths = {tile: len(reader.prompt.answer(result.texts[tile])) - 1 for tile in set(first)}
            costs[name] = [{"as": "text", "tokens": _mean([lengths[tile] for tile in first])}]
            continue
        sizes = {tile: _size(asked.store, tile) for tile in set(first)}
        costs[name] = [
            {
                "as": f"picture at {compression:g}×",
                "tokens": _mean([policy_tokens(*size(*sizes[tile], compression), reader.policy) for tile in first]),
            }
            for compression in config.compressions
        ]
    return costs


def _size(store: TileStore, tile_id: str) -> tuple[int, int]:
    tile = store.light(tile_id)
    return tile.width_px, tile.height_px


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values)
