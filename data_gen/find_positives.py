"""Stage: split pairs + all tiles of the corpus -> every further tile that answers each query, by truth and by a judge.

Truth: where make_digest_pages planted copies. The judge is the offline one, asked of every tile (mining asks only
about the nearest). A figure of recall that counts them as wrong would punish an embedder for finding an answer.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.data_gen.grounded.terms import holds, key_terms, terms
from tilewright.data_gen.grounded.units import analyse
from tilewright.data_gen.make_digest_pages import Copy
from tilewright.data_gen.pair_files import check_tiles, read_pair_file
from tilewright.data_gen.records import QAPair, Tile, read_jsonl, write_jsonl
from tilewright.data_gen.splits import SPLITS
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.verdicts import Verdict

POSITIVES = "positives.jsonl"


@dataclass(frozen=True)
class Config:
    """``pairs``: folder of split_pairs; ``tiles``: the whole corpus; ``copies``: copies.jsonl of make_digest_pages."""

    out: Path
    pairs: Path = input_path()
    tiles: Path = input_path()
    copies: Path | None = input_path(default=None)


@dataclass(frozen=True)
class Positives:
    """Tiles other than its own that answer a query: ``stated``, by known copies; ``judged``, by the judge. In order."""

    query_id: str
    stated: tuple[str, ...]
    judged: tuple[str, ...]

    @property
    def tile_ids(self) -> frozenset[str]:
        """By either."""
        return frozenset((*self.stated, *self.judged))


def find_positives(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write POSITIVES, a line a pair; count how judge and truth agree, and copies that no tile shows whole.

    Raises InputError for what can't be read, and for pairs or copies of another corpus than ``tiles``.
    """
    store = TileStore.open(inputs["tiles"])
    pairs = _pairs_of(inputs["pairs"], store)
    tiles = {tile.tile_id: tile for tile in store.iterate_light()}
    copies = read_jsonl(inputs["copies"], Copy) if "copies" in inputs else []
    if copies and {copy.page_id for copy in copies}.isdisjoint(tile.page_id for tile in tiles.values()):
        raise InputError(f"{inputs['copies']}: no page of these copies has a tile in {store.folder}: other tiles?")
    stated, cut = stated_tiles(copies, tiles)
    corpus = JudgedCorpus(tiles)
    found: list[Positives] = []
    counts: Counts = {}
    for split in SPLITS:
        of_split = [
            Positives(
                pair.query_id,
                tuple(sorted(stated[pair.query_id] - {pair.tile_id})),
                tuple(sorted(corpus.answering(pair) - {pair.tile_id})),
            )
            for pair in pairs[split]
        ]
        counts[split] = agreement(of_split)
        found += of_split
    write_jsonl(out / POSITIVES, found)
    return {"pairs": len(found), "tiles": len(tiles), "copies": len(copies), "copies_on_no_tile": cut, **counts}


def _pairs_of(folder: Path, store: TileStore) -> dict[str, list[QAPair]]:
    """{split: its pairs}, each query_id once, of tiles of ``store`` (or of none)."""
    pairs: dict[str, list[QAPair]] = {}
    split_of: dict[str, str] = {}
    for split in SPLITS:
        path = folder / f"{split}.jsonl"
        pairs[split] = read_pair_file(path)
        check_tiles([pair for pair in pairs[split] if pair.tile_id], store, path)
        twice = next((pair.query_id for pair in pairs[split] if pair.query_id in split_of), None)
        if twice is not None:
            raise InputError(f"{path}: query_id {twice!r} stands in split {split_of[twice]} too: wanted each once")
        split_of |= dict.fromkeys((pair.query_id for pair in pairs[split]), split)
    return pairs


def stated_tiles(copies: Iterable[Copy], tiles: Mapping[str, Tile]) -> tuple[Mapping[str, set[str]], int]:
    """{query_id: the tiles that hold a copied statement whole}, and how many copies are on none (cut by an edge)."""
    texts: dict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    pages = {copy.page_id for copy in copies}
    for tile in tiles.values():
        if tile.page_id in pages:
            texts[tile.page_id].append((tile.tile_id, terms(tile.text)))
    found: dict[str, set[str]] = defaultdict(set)
    cut = 0
    for copy in copies:
        statement = terms(copy.statement)
        holding = {tile_id for tile_id, text in texts[copy.page_id] if holds(text, statement)}
        cut += not holding
        for query_id in copy.query_ids:
            found[query_id] |= holding
    return found, cut


class JudgedCorpus:
    """All tiles by the terms of their statements, so that the judge looks only where it could say CORRECT."""

    def __init__(self, tiles: Mapping[str, Tile]) -> None:
        self._tiles, self._judge = tiles, GroundedJudge()
        self._holding: dict[str, set[str]] = defaultdict(set)
        for tile in tiles.values():
            for term in analyse(tile).vocabulary:
                self._holding[term].add(tile.tile_id)

    def answering(self, pair: QAPair) -> set[str]:
        """The tiles of which the judge says that they answer the pair's query."""
        wanted = sorted((self._holding.get(term, set()) for term in key_terms(pair.query)), key=len)
        answers = (pair.answer, *pair.aliases)
        return {
            tile_id
            for tile_id in (set.intersection(*wanted) if wanted else ())
            if self._judge.judge(pair.query, answers, self._tiles[tile_id]) is Verdict.CORRECT
        }


def agreement(found: Iterable[Positives]) -> Counts:
    """How many tiles truth and judge name, alone and together, and how many queries have any."""
    counts: Counter[str] = Counter(pairs=0, with_positives=0, stated=0, judged=0, both=0)
    for one in found:
        counts["pairs"] += 1
        counts["with_positives"] += bool(one.tile_ids)
        counts["stated"] += len(one.stated)
        counts["judged"] += len(one.judged)
        counts["both"] += len(set(one.stated) & set(one.judged))
    return dict(counts)


STAGE = Stage("find_positives", Config, find_positives, schema=1)

if __name__ == "__main__":
    main(STAGE)
