"""The inputs of embedder training, checked: examples, the tiles they name, and the pools of the validation searches."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.splits import pages_of_split
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.batch_plan import choose
from tilewright.train.example_table import ExampleTable, SortedIds
from tilewright.train.kept_examples import kept_examples
from tilewright.train.read_examples import read_examples, read_text_pairs, tiles_of
from tilewright.train.split_files import PAGES_FILE, read_pairs
from tilewright.train.validation import Pool


@dataclass(frozen=True)
class TrainingData:
    """``examples`` to learn from; all tiles of the training pages; what is searched to see how it goes."""

    store: TileStore
    examples: ExampleTable
    training_tiles: SortedIds
    validation: Pool
    training: Pool
    text_pairs: pa.Table | None = None


def load_training_data(
    inputs: Mapping[str, Path],
    *,
    seed: int,
    limit_examples: int | None,
    validation_queries: int,
    train_recall_queries: int,
    kept: Path | None = None,
    write_kept: bool = True,
) -> TrainingData:
    """Read and check the inputs ``examples``, ``tiles``, ``validation`` and ``splits``, and ``text_pairs`` if given.

    Limits choose by digest of the query ids. ``kept``: a folder where the examples are kept as columns, for the next
    start; of several ranks one may ``write_kept`` (``kept_examples``). Raises InputError, with file and line, for an
    empty file, an example whose tiles aren't in the store, or a validation question about a page that isn't a
    validation page.
    """
    store = TileStore.open(inputs["tiles"])
    path = inputs["examples"]
    examples = read_examples(path, store) if kept is None else kept_examples(path, store, kept, write=write_kept)
    pages = {split: pages_of_split(inputs["splits"] / PAGES_FILE, split) for split in ("train", "validation")}
    pairs = read_pairs(inputs["validation"], may_be_empty=True)
    check_pairs(pairs, inputs["validation"], store, pages["validation"])
    by_split = tiles_of(store, pages)
    chosen = examples if limit_examples is None else examples.choose(limit_examples, seed)
    shown = chosen.choose(train_recall_queries, seed)
    training_tiles = by_split["train"]
    asked = choose(pairs, validation_queries, seed)
    return TrainingData(
        store=store,
        examples=chosen,
        training_tiles=training_tiles,
        validation=Pool(
            "validation",
            {pair.query_id: pair.query for pair in asked},
            {pair.query_id: [pair.tile_id] for pair in asked},
            by_split["validation"],
        ),
        training=Pool(
            "training",
            {example.query_id: example.query for example in shown},
            {example.query_id: [example.positive_tile_id] for example in shown},
            training_tiles.with_places(shown.positives),
        ),
        text_pairs=read_text_pairs(inputs["text_pairs"]) if "text_pairs" in inputs else None,
    )


def check_pairs(pairs: Sequence[QAPair], path: Path, store: TileStore, pages: Collection[str]) -> None:
    """Raises InputError unless the tiles of ``pairs`` are in ``store`` and their pages in ``pages``."""
    for line, pair in enumerate(pairs, start=1):
        if pair.tile_id not in store:
            raise InputError(f"{path}:{line}: tile {pair.tile_id!r} is not in {store.folder} ({len(store)} tiles)")
        if pair.page_id not in pages:
            raise InputError(
                f"{path}:{line}: page {pair.page_id!r} is no validation page: wanted split_pairs' own file"
            )


def pool_counts(pool: Pool) -> dict[str, int]:
    """Sizes of a pool, for a manifest."""
    pages = {tile_id.partition("-")[0] for tile_id in pool.tile_ids}
    return {"queries": len(pool.queries), "tiles": len(pool.tile_ids), "pages": len(pages)}
