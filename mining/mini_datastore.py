"""Stage: a part of a corpus small enough to be indexed anew for every checkpoint, and hard enough to tell them apart.

Some questions, all tiles of their gold pages, and the tiles that a base checkpoint ranks highest for each. Recall on it
is above recall on the whole corpus: it compares checkpoints with each other, and is no score of the corpus.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.bounds import check_bounds
from tilewright.configs.items import ItemError, process_items
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.pair_outcomes import PAIRS
from tilewright.data_gen.records import QAPair, write_jsonl
from tilewright.data_gen.review import sample
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.data_gen.tiles import page_of
from tilewright.mining.candidates import Searcher, blocks_of
from tilewright.train.split_files import read_pairs

STORE = "store"


@dataclass(frozen=True)
class Config:
    """``questions`` of ``pairs``, drawn by ``seed`` (a page gives a second one only once each has given one), with all
    tiles of their pages and, for each, the ``top_n`` tiles nearest by ``index``, made of ``tiles`` with ``checkpoint``.

    ``block`` queries are encoded together. ``device`` encodes them: auto takes the accelerator if there is one.
    """

    out: Path
    questions: int
    top_n: int
    seed: int
    index: Path = input_path()
    checkpoint: Path = input_path()
    tiles: Path = input_path()
    pairs: Path = input_path()
    block: int = 64
    device: str = "auto"

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "questions", "block")
        check_bounds(self, 0, None, "top_n")


def mini_datastore(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write ``store/`` (tiles) and ``pairs.jsonl`` (the questions, in the order of ``pairs``).

    Raises InputError for a question whose tile isn't in the index, StageError for a failed search.
    """
    pairs = read_pairs(inputs["pairs"])
    drawn = {pair.query_id for pair in sample(pairs, config.questions, config.seed)}
    chosen = [pair for pair in pairs if pair.query_id in drawn]
    searcher = Searcher.open(inputs["index"], inputs["checkpoint"], inputs["tiles"], config.device)
    searcher.check_positives(chosen, inputs["pairs"])

    def work(todo: Sequence[QAPair]) -> Iterator[tuple[QAPair, list[str] | ItemError]]:
        unfinished = {pair.query_id for pair in todo}
        for block in blocks_of(chosen, config.block, unfinished):
            ranked = searcher.search(block, config.top_n, None)
            for pair, candidates in zip(block, ranked, strict=True):
                if pair.query_id in unfinished:
                    yield pair, _nearest(pair, candidates.tile_ids, candidates.positive_rank, config.top_n)

    found = process_items("mini_datastore", chosen, lambda pair: pair.query_id, work, out)
    nearest = {tile_id for tile_ids in found.values() for tile_id in tile_ids}
    pages = {pair.page_id for pair in chosen}
    gold = {tile_id for tile_id in searcher.store.tile_ids if page_of(tile_id) in pages}
    _write_store(out / STORE, searcher.store, gold | nearest)
    return {
        "questions": write_jsonl(out / PAIRS, chosen),
        "questions_given": len(pairs),
        "gold_pages": len(pages),
        "tiles": len(gold | nearest),
        "tiles_given": len(searcher.store),
        "gold_tiles": len(gold),
        "nearest_tiles": len(nearest),
        "nearest_tiles_of_other_pages": len(nearest - gold),
    }


def _nearest(pair: QAPair, others: Sequence[str], positive_rank: int | None, top_n: int) -> list[str]:
    """The ``top_n`` nearest tiles, the positive among them in its place."""
    if positive_rank is None:
        return list(others)
    return [*others[: positive_rank - 1], pair.tile_id, *others[positive_rank - 1 :]][:top_n]


def _write_store(folder: Path, store: TileStore, tile_ids: set[str]) -> None:
    write_store(folder, (store.get(tile_id) for tile_id in sorted(tile_ids)))


STAGE = Stage("mini_datastore", Config, mini_datastore, schema=1)

if __name__ == "__main__":
    main(STAGE)
