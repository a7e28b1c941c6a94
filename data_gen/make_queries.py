"""tiles -> question-answer pairs: gates tile by tile, near-duplicates once, then an annotator.

``pairs.jsonl`` holds the pairs in the order of tile ids, ``outcomes.jsonl`` what became of each tile: both of a part
(``shard: i/n``) put together by tile id are those of one run.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.items import process_items
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main
from tilewright.data_gen.annotator import TWO_ANSWERS, Annotator, Generated, RawPair, Skip
from tilewright.data_gen.evidence_balance import assign_kinds
from tilewright.data_gen.gated_tiles import gate_tiles, read_pages
from tilewright.data_gen.gates import GateConfig
from tilewright.data_gen.generation import GenerationSettings, LlmGenerator
from tilewright.data_gen.grounded.annotator import GroundedAnnotator
from tilewright.data_gen.grounded.cloze import ClozeAnnotator
from tilewright.data_gen.grounded.settings import GroundedSettings
from tilewright.data_gen.llm import Client, LlmSettings, Session
from tilewright.data_gen.pair_files import check_pictures
from tilewright.data_gen.pair_outcomes import ERROR, KEPT
from tilewright.data_gen.pair_outcomes import outcome_of as pair_outcome
from tilewright.data_gen.parts import in_part, part_of
from tilewright.data_gen.records import QAPair, Tile, from_json, to_json, write_jsonl
from tilewright.data_gen.review import write_outcome_review
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of

ASKED, GATE, SKIP = "asked", "gate:", "skip:"
REPEATED = "repeated_on_tile"
PAIR_DROPS = ("answer_not_in_tile", "over_max_pairs", REPEATED, TWO_ANSWERS)


@dataclass(frozen=True)
class Config:
    """Asks about every tile of ``tiles`` (folder of render_tiles) that passes the gates; of near-duplicates about one.

    ``annotator``: grounded (offline, from the DOM text; ``grounded`` tells which kinds), cloze (offline: sentences with
    a word left out, for pages of any subject) or openai (``llm`` and ``generation``: any OpenAI-compatible server).
    ``max_pairs_per_tile`` bounds what one tile may give; what is left out is counted: ``candidates`` is the sum of
    ``pairs`` and of the pairs dropped by reason. ``shard``: "i/n" asks about one of n parts of the pages; merge_pairs
    puts parts together. ``review_pairs``: so many of the pairs, drawn by ``seed``, are shown in review.html. More than
    ``max_error_share`` of failed tiles stop the stage.
    """

    out: Path
    annotator: Literal["grounded", "cloze", "openai"]
    max_pairs_per_tile: int
    gates: GateConfig
    tiles: Path = input_path()
    grounded: GroundedSettings | None = None
    llm: LlmSettings | None = None
    generation: GenerationSettings | None = None
    shard: str | None = None
    review_pairs: int = 0
    seed: int = 0
    max_error_share: float = execution(default=0.01)

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "max_pairs_per_tile")
        check_bounds(self, 0, None, "review_pairs")
        check_bounds(self, 0, 1, "max_error_share")
        part_of(self.shard)
        for name, annotator in (("grounded", "grounded"), ("llm", "openai"), ("generation", "openai")):
            if self.annotator != annotator and getattr(self, name) is not None:
                raise ValueError(f"{name}: is a setting of annotator {annotator}, found annotator {self.annotator}")
        if self.annotator == "openai" and self.llm is None:
            raise ValueError("llm: wanted the server and model that annotator openai asks, found nothing")


@dataclass(frozen=True)
class TileOutcome:
    """``outcome``: "asked", "gate:" and "skip:" with a name, or "error". ``dropped``: {why: how many pairs}."""

    tile_id: str
    outcome: str
    pairs: int = 0
    dropped: dict[str, int] = field(default_factory=dict)


def query_id(tile_id: str, query: str) -> str:
    """16 hex of SHA-256 of tile and query: stable, whatever else is asked."""
    return hashlib.sha256(f"{tile_id}\n{query}".encode()).hexdigest()[:16]


def make_queries(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write ``pairs.jsonl`` and ``outcomes.jsonl``; resumes tile by tile. Raises InputError if there's no pair."""
    store = TileStore.open(inputs["tiles"])
    if not len(store):
        raise InputError(f"{inputs['tiles']}: the tile store is empty: render at least one page with text first")
    needs_text = config.annotator != "openai"
    needs_text |= config.generation is not None and not config.generation.sees_pictures
    gated = gate_tiles(store, read_pages(inputs["tiles"]), config.gates, out, needs_text=needs_text)
    part = part_of(config.shard)
    mine = {tile_id: value for tile_id, value in gated.items() if in_part(page_of(tile_id), part)}
    passed = [tile_id for tile_id, value in gated.items() if value.keys().isdisjoint(("gate", "skip"))]
    wanted = [tile_id for tile_id in passed if tile_id in mine]
    name, found = annotate(config, store, passed, wanted, out)
    outcomes = [outcome_of(tile_id, value, found.get(tile_id)) for tile_id, value in mine.items()]
    pairs = [from_json(QAPair, pair) for tile_id in wanted for pair in found.get(tile_id, {}).get("pairs", ())]
    counts = counts_of(outcomes, pairs, name)
    if not pairs and part == (0, 1):
        why = ", ".join(f"{name}: {n}" for name, n in counts.items() if name.startswith(("dropped", "skipped")) and n)
        raise InputError(
            f"{inputs['tiles']}: none of {len(outcomes)} tiles gave a pair ({why}); wanted at least one: relax `gates`"
            " or `max_pairs_per_tile`, or render pages with more text"
        )
    write_jsonl(out / "pairs.jsonl", pairs)
    write_jsonl(out / "outcomes.jsonl", outcomes)
    items = list(enumerate(pairs))
    made = [pair_outcome(position, pair, KEPT) for position, pair in items]
    write_outcome_review(out, made, items, store, number=config.review_pairs, seed=config.seed, title="make_queries")
    return counts


def annotate(
    config: Config, store: TileStore, passed: Sequence[str], wanted: Sequence[str], out: Path
) -> tuple[str, dict[str, Any]]:
    """(name of the annotator, {tile_id: what asking about it gave}) of the ``wanted`` ones of the ``passed`` tiles."""
    if config.llm is None:
        annotator = offline_annotator(config)

        def ask_offline(tile_ids: Sequence[str]) -> Iterator[tuple[str, Any]]:
            for tile_id in tile_ids:
                tile = store.light(tile_id)
                yield tile_id, asked(annotator.generate(tile), tile, annotator.name)

        return annotator.name, process_items("make_queries", wanted, str, ask_offline, out)
    settings = config.generation or GenerationSettings()
    if settings.sees_pictures:
        check_pictures(store, wanted)
    generator = LlmGenerator(config.llm.model, settings, config.max_pairs_per_tile)
    kinds = assign_kinds(map(store.light, passed), settings.kind_shares, config.seed)

    async def ask(client: Client, tile_id: str) -> dict[str, Any]:
        tile = store.get(tile_id) if settings.sees_pictures else store.light(tile_id)
        return asked(await generator.generate(client, tile, kinds.get(tile_id)), tile, generator.name)

    with Session(config.llm, out) as session:
        found = session.process("make_queries", wanted, str, ask, config.max_error_share)
    return generator.name, found


def offline_annotator(config: Config) -> Annotator:
    """The annotator that makes its questions from a tile's own text."""
    if config.annotator == "cloze":
        return ClozeAnnotator(config.max_pairs_per_tile)
    return GroundedAnnotator(config.max_pairs_per_tile, config.grounded or GroundedSettings())


def outcome_of(tile_id: str, gated: Mapping[str, Any], found: Mapping[str, Any] | None) -> TileOutcome:
    """What became of a tile: of the gates, else of asking about it (None: that failed)."""
    if "gate" in gated:
        return TileOutcome(tile_id, f"{GATE}{gated['gate']}")
    value = gated if "skip" in gated else found
    if value is None:
        return TileOutcome(tile_id, ERROR)
    name = f"{SKIP}{value['skip']}" if "skip" in value else ASKED
    return TileOutcome(tile_id, name, len(value.get("pairs", ())), value.get("dropped", {}))


def asked(found: Generated | Skip, tile: Tile, annotator: str) -> dict[str, Any]:
    """What one tile gives: {"skip": reason} or {"pairs": [...]}; "dropped": by reason."""
    if isinstance(found, Skip):
        return {"skip": found.reason, "dropped": dict(found.dropped)}
    distinct: dict[tuple[str, str], RawPair] = {}
    for raw in found.pairs:
        distinct.setdefault((raw.query, raw.answer), raw)
    queries = Counter(query for query, _ in distinct)
    pairs = [to_json(_pair(raw, tile, annotator)) for raw in distinct.values() if queries[raw.query] == 1]
    # one question with several answers on one tile (children of a language family) is no question with an answer
    dropped = Counter(found.dropped)
    dropped[REPEATED] += len(found.pairs) - len(distinct)
    dropped[TWO_ANSWERS] += len(distinct) - len(pairs)
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


def counts_of(outcomes: Sequence[TileOutcome], pairs: Sequence[QAPair], annotator: str) -> Counts:
    """The counts of the stage, from the lines of outcomes.jsonl and the pairs alone."""
    names = Counter(outcome.outcome for outcome in outcomes)
    stopped = {f"dropped_{name.removeprefix(GATE)}": n for name, n in names.items() if name.startswith(GATE)}
    skipped = {f"skipped_{name.removeprefix(SKIP)}": n for name, n in names.items() if name.startswith(SKIP)}
    failed = {"skipped_error": names[ERROR]} if names[ERROR] else {}
    dropped = Counter({f"dropped_{reason}": 0 for reason in PAIR_DROPS})
    for outcome in outcomes:
        dropped.update({f"dropped_{reason}": number for reason, number in outcome.dropped.items()})
    return {
        "tiles": len(outcomes),
        "candidates": len(pairs) + dropped.total(),
        "pairs": len(pairs),
        "tiles_with_pairs": len({pair.tile_id for pair in pairs}),
        "pages_with_pairs": len({pair.page_id for pair in pairs}),
        **dict(sorted({**stopped, **skipped, **failed, **dropped}.items())),
        "annotator": annotator,
        "by_type": dict(sorted(Counter(pair.source_type for pair in pairs).items())),
    }


STAGE = Stage("make_queries", Config, make_queries, schema=4)

if __name__ == "__main__":
    main(STAGE)
