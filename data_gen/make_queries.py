"""tiles -> question-answer pairs: gates tile by tile, near-duplicates once, then an annotator."""

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.items import process_items
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.annotator import TWO_ANSWERS, Annotator, RawPair, Skip
from tilewright.data_gen.gates import NEAR_DUPLICATE, Gate, GateConfig, first_failed, gates
from tilewright.data_gen.grounded.annotator import GroundedAnnotator
from tilewright.data_gen.near_duplicates import near_duplicates, perceptual_hash
from tilewright.data_gen.records import Page, QAPair, Tile, from_json, read_jsonl, to_json, write_jsonl
from tilewright.data_gen.tile_store import TileStore

GATED = "gates:"  # a tile's key in the journal before it is asked about
PAIR_DROPS = ("answer_not_in_tile", "over_max_pairs", "repeated_on_tile", TWO_ANSWERS)


@dataclass(frozen=True)
class Config:
    """Asks about every tile of ``tiles`` (folder of render_tiles) that passes the gates; of near-duplicates about one.

    ``max_pairs_per_tile`` bounds what one tile may give; what is left out is counted: ``candidates`` is the sum of
    ``pairs`` and of the pairs dropped as over_max_pairs, answer_not_in_tile or repeated_on_tile.
    """

    out: Path
    annotator: Literal["grounded"]
    max_pairs_per_tile: int
    gates: GateConfig
    tiles: Path = input_path()

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "max_pairs_per_tile")


def query_id(tile_id: str, query: str) -> str:
    """16 hex of SHA-256 of tile and query: stable, whatever else is asked."""
    return hashlib.sha256(f"{tile_id}\n{query}".encode()).hexdigest()[:16]


def make_queries(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write ``pairs.jsonl`` in the order of tile ids; resumes tile by tile. Raises InputError if there's no pair."""
    store = TileStore.open(inputs["tiles"])
    if not len(store):
        raise InputError(f"{inputs['tiles']}: the tile store is empty: render at least one page with text first")
    pages = read_pages(inputs["tiles"])
    annotator = GroundedAnnotator(config.max_pairs_per_tile)

    gated = gate(store, pages, config.gates, out)

    def work(tile_ids: Sequence[str]) -> Iterator[tuple[str, Any]]:
        for tile_id in tile_ids:
            yield tile_id, ask(store, annotator, tile_id)

    passed = [tile_id for tile_id, value in gated.items() if value.keys().isdisjoint(("gate", "skip"))]
    results = gated | process_items("make_queries", passed, str, work, out)
    pairs = [from_json(QAPair, pair) for result in results.values() for pair in result.get("pairs", ())]
    counts = _counts(results, pairs, annotator)
    if not pairs:
        why = ", ".join(f"{name}: {n}" for name, n in counts.items() if name.startswith(("dropped", "skipped")) and n)
        raise InputError(
            f"{inputs['tiles']}: none of {len(results)} tiles gave a pair ({why}); wanted at least one: relax `gates`"
            " or `max_pairs_per_tile`, or render pages with more text"
        )
    write_jsonl(out / "pairs.jsonl", pairs)
    return counts


def read_pages(tiles: Path) -> dict[str, Page]:
    """{page_id: Page} of a folder of render_tiles. Raises InputError if it has no pages.jsonl."""
    path = tiles / "pages.jsonl"
    if not path.is_file():
        raise InputError(f"{path} is missing: wanted the output folder of render_tiles")
    return {page.page_id: page for page in read_jsonl(path, Page)}


def gate(store: TileStore, pages: dict[str, Page], config: GateConfig, out: Path) -> dict[str, dict[str, Any]]:
    """{tile_id: {"gate": which stopped it} or {"skip": reason}, or neither: it passed}; resumes tile by tile."""

    def work(tile_ids: Sequence[str]) -> Iterator[tuple[str, Any]]:
        all_gates, hashing = gates(config), config.near_duplicate_bits is not None
        for tile_id in tile_ids:
            load = functools.cache(functools.partial(store.image, tile_id))
            yield tile_id, look(pages, store.light(tile_id), all_gates, load, hashing=hashing)

    found = process_items("gates", list(store.tile_ids), lambda tile_id: f"{GATED}{tile_id}", work, out)
    looked = {key.removeprefix(GATED): value for key, value in found.items()}
    if config.near_duplicate_bits is None:
        return looked
    hashed = {tile_id: value for tile_id, value in looked.items() if "hash" in value}
    hashes, sizes = [value["hash"] for value in hashed.values()], [value["size_px"] for value in hashed.values()]
    dropped = near_duplicates(list(hashed), hashes, sizes, config.near_duplicate_bits)
    return looked | {tile_id: {"gate": NEAR_DUPLICATE} for tile_id in dropped}


def look(
    pages: dict[str, Page], tile: Tile, all_gates: Sequence[Gate], load: Callable[[], Image.Image], *, hashing: bool
) -> dict[str, Any]:
    """What stops a tile by itself; of one that passes its perceptual hash and size, if ``hashing``."""
    page = pages.get(tile.page_id)
    if page is None:
        raise InputError(f"tile {tile.tile_id}: its page {tile.page_id} isn't in pages.jsonl: run render_tiles again")
    if not tile.text.strip():
        return {"skip": "no_text"}
    stopped = first_failed(all_gates, page, tile, load)
    if stopped is not None:
        return {"gate": stopped}
    return {"hash": perceptual_hash(load()), "size_px": [tile.width_px, tile.height_px]} if hashing else {}


def ask(store: TileStore, annotator: Annotator, tile_id: str) -> dict[str, Any]:
    """What one tile gives: {"skip": reason} or {"pairs": [...]}; "dropped": by reason."""
    tile = store.light(tile_id)
    found = annotator.generate(tile)
    if isinstance(found, Skip):
        return {"skip": found.reason, "dropped": dict(found.dropped)}
    asked = Counter(raw.query for raw in found.pairs)
    pairs = [to_json(_pair(raw, tile, annotator.name)) for raw in found.pairs if asked[raw.query] == 1]
    # one question with several answers on one tile (children of a language family) is no question with an answer
    dropped = Counter(found.dropped)
    dropped[TWO_ANSWERS] += len(found.pairs) - len(pairs)
    return {"pairs": pairs, "dropped": dict(dropped)}


def _pair(raw: RawPair, tile: Tile, annotator: str) -> QAPair:
    return QAPair(
        query_id=query_id(tile.tile_id, raw.query),
        query=raw.query,
        answer=raw.answer,
        aliases=raw.aliases,
        tile_id=tile.tile_id,
        page_id=tile.page_id,
        source_span=raw.source_span,
        source_type=raw.source_type,
        subject=raw.subject,
        annotator=annotator,
    )


def _counts(results: dict[str, Any], pairs: list[QAPair], annotator: Annotator) -> Counts:
    stopped = Counter(f"dropped_{result['gate']}" for result in results.values() if "gate" in result)
    skipped = Counter(f"skipped_{result['skip']}" for result in results.values() if "skip" in result)
    dropped = Counter({f"dropped_{reason}": 0 for reason in PAIR_DROPS})
    for result in results.values():
        dropped.update({f"dropped_{reason}": number for reason, number in result.get("dropped", {}).items()})
    return {
        "tiles": len(results),
        "candidates": len(pairs) + dropped.total(),
        "pairs": len(pairs),
        "tiles_with_pairs": len({pair.tile_id for pair in pairs}),
        "pages_with_pairs": len({pair.page_id for pair in pairs}),
        **dict(sorted(({**stopped, **skipped, **dropped}).items())),
        "annotator": annotator.name,
        "by_type": dict(sorted(Counter(pair.source_type for pair in pairs).items())),
    }


STAGE = Stage("make_queries", Config, make_queries, schema=3)

if __name__ == "__main__":
    main(STAGE)
