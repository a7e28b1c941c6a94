"""The inputs of embedder training, checked: examples, the tiles they name, and the pools of the validation searches."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import QAPair, TrainingExample, read_jsonl
from tilewright.data_gen.splits import pages_of_split
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.batch_plan import choose
from tilewright.train.split_files import PAGES_FILE, read_pairs
from tilewright.train.validation import Pool


@dataclass(frozen=True)
class TrainingData:
    """``examples`` to learn from; all tiles of the training pages; what is searched to see how it goes."""

    store: TileStore
    examples: list[TrainingExample]
    training_tiles: list[str]
    validation: Pool
    training: Pool


def load_training_data(
    inputs: Mapping[str, Path],
    *,
    seed: int,
    limit_examples: int | None,
    validation_queries: int,
    train_recall_queries: int,
) -> TrainingData:
    """Read and check the inputs ``examples``, ``tiles``, ``validation`` and ``splits``.

    Limits choose by digest of the query ids. Raises InputError, with file and line, for an empty file, an example
    whose tiles aren't in the store, or a validation question about a page that isn't a validation page.
    """
    store = TileStore.open(inputs["tiles"])
    examples = read_examples(inputs["examples"], store)
    pages = {split: pages_of_split(inputs["splits"] / PAGES_FILE, split) for split in ("train", "validation")}
    pairs = read_pairs(inputs["validation"], may_be_empty=True)
    check_pairs(pairs, inputs["validation"], store, pages["validation"])
    by_split = {split: tiles_of(store, pages[split]) for split in ("train", "validation")}
    chosen = choose(examples, len(examples) if limit_examples is None else limit_examples, seed)
    shown = choose(chosen, train_recall_queries, seed)
    asked = choose(pairs, validation_queries, seed)
    return TrainingData(
        store=store,
        examples=chosen,
        training_tiles=by_split["train"],
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
            sorted({*by_split["train"], *(example.positive_tile_id for example in shown)}),
        ),
    )


def read_examples(path: Path, store: TileStore) -> list[TrainingExample]:
    """All training examples of a file; every tile they name must be in ``store``."""
    examples = read_jsonl(path, TrainingExample)
    if not examples:
        raise InputError(
            f"{path}: no training examples: wanted at least one; mine_negatives' manifest counts its drops"
        )
    for line, example in enumerate(examples, start=1):
        named = {"positive_tile_id": (example.positive_tile_id,), "negative_tile_ids": example.negative_tile_ids}
        for field, tile_ids in named.items():
            for tile_id in tile_ids:
                if tile_id not in store:
                    raise InputError(
                        f"{path}:{line}: {field}: tile {tile_id!r} is not in {store.folder} ({len(store)} tiles): use"
                        " the tiles that the examples were mined from"
                    )
        if example.positive_tile_id in example.negative_tile_ids:
            raise InputError(f"{path}:{line}: tile {example.positive_tile_id!r} is both positive and negative")
    return examples


def check_pairs(pairs: Sequence[QAPair], path: Path, store: TileStore, pages: Collection[str]) -> None:
    """Raises InputError unless the tiles of ``pairs`` are in ``store`` and their pages in ``pages``."""
    for line, pair in enumerate(pairs, start=1):
        if pair.tile_id not in store:
            raise InputError(f"{path}:{line}: tile {pair.tile_id!r} is not in {store.folder} ({len(store)} tiles)")
        if pair.page_id not in pages:
            raise InputError(
                f"{path}:{line}: page {pair.page_id!r} is no validation page: wanted split_pairs' own file"
            )


def tiles_of(store: TileStore, pages: Collection[str]) -> list[str]:
    """Ids of the tiles of ``pages``, sorted."""
    return [tile_id for tile_id in store.tile_ids if tile_id.partition("-")[0] in pages]


def pool_counts(pool: Pool) -> dict[str, int]:
    """Sizes of a pool, for a manifest."""
    pages = {tile_id.partition("-")[0] for tile_id in pool.tile_ids}
    return {"queries": len(pool.queries), "tiles": len(pool.tile_ids), "pages": len(pages)}
