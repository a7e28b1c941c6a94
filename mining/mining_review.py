"""The review page of mining: a query with its positive, its negatives and its known positives side by side."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tilewright.data_gen.html_page import text
from tilewright.data_gen.records import QAPair, Tile, TrainingExample
from tilewright.data_gen.review import MIN_PICTURE_BYTES, PICTURES_BYTES, picture, sample
from tilewright.data_gen.review_page import REVIEW, Article, address, cut, value, write_page
from tilewright.data_gen.tile_store import TileStore
from tilewright.mining.mined import Looked, Mined

GUIDE = "Good: the positive answers the question, none of the negatives does, every known positive does."


@dataclass(frozen=True)
class _Shown:
    """An example to show, with what was found out about it."""

    mined: Mined
    example: TrainingExample
    pair: QAPair

    @property
    def query_id(self) -> str:
        return self.pair.query_id

    @property
    def page_id(self) -> str:
        return self.pair.page_id

    def tile_ids(self) -> tuple[str, ...]:
        example = self.example
        return (example.positive_tile_id, *example.negative_tile_ids, *example.known_positive_tile_ids)


def write_mining_review(
    out: Path, mined: Sequence[Mined], pairs: Mapping[str, QAPair], store: TileStore, *, number: int, seed: int
) -> None:
    """Write ``out``/review.html with ``number`` of the examples, drawn by ``seed``. ``pairs``: {query_id: pair}.

    Raises InputError for tiles that the store lacks.
    """
    kept = [_Shown(one, one.example, pairs[one.pair.query_id]) for one in mined if one.example is not None]
    chosen = sample(kept, number, seed)
    tiles = {tile_id: store.light(tile_id) for shown in chosen for tile_id in shown.tile_ids()}
    places = sum(len(shown.tile_ids()) for shown in chosen)
    most_bytes = max(MIN_PICTURE_BYTES, PICTURES_BYTES // max(1, places))
    pictures = {tile_id: picture(store, tile, most_bytes) for tile_id, tile in tiles.items()}
    articles = [_article(shown, tiles, pictures) for shown in chosen]
    write_page(out / REVIEW, articles, title="mine_negatives", guide=GUIDE, sample=_digest(chosen, tiles))


def _digest(chosen: Sequence[_Shown], tiles: Mapping[str, Tile]) -> str:
    """What marks belong to: the examples and the pixels shown, whatever their order."""
    seen = [
        json.dumps([asdict(shown.example), [tiles[tile_id].image_sha256 for tile_id in shown.tile_ids()]])
        for shown in chosen
    ]
    return hashlib.sha256("\n".join(sorted(seen)).encode()).hexdigest()


def _article(shown: _Shown, tiles: Mapping[str, Tile], pictures: Mapping[str, str]) -> Article:
    example, pair, found = shown.example, shown.pair, shown.mined.pair
    looked = {one.tile_id: one for one in shown.mined.looked}
    score = "" if found.positive_score is None else f", score {found.positive_score:.3f}"
    rank = "not among the candidates" if found.positive_rank is None else f"rank {found.positive_rank}"
    sides = [_figure("positive", "Positive", f"{rank}{score}", example.positive_tile_id, tiles, pictures)]
    for kind, name, tile_ids in (
        ("negative", "Negative", example.negative_tile_ids),
        ("known", "Known positive", example.known_positive_tile_ids),
    ):
        sides += [_figure(kind, name, _said(looked.get(tile_id)), tile_id, tiles, pictures) for tile_id in tile_ids]
    tile = tiles[pair.tile_id]
    facts = [
        ("Also right", value("; ".join(pair.aliases) or "no other form")),
        ("Page", value(tile.title)),
        ("Address", address(tile.url)),
        ("Asked by", value(pair.annotator)),
    ]
    decided = [("Outcome", value(found.outcome))]
    decided += [(f"{one.rank}. {one.tile_id}", value(_verdict(one))) for one in shown.mined.looked]
    return Article(
        {"query_id": pair.query_id, "page_id": pair.page_id, "outcome": found.outcome},
        f'<div class="sides">{"".join(sides)}</div>',
        pair.query,
        f'<p class="answer" dir="auto">{text(cut(pair.answer))}</p>\n',
        facts,
        decided,
        "What the judge said",
    )


def _figure(
    kind: str, name: str, said: str, tile_id: str, tiles: Mapping[str, Tile], pictures: Mapping[str, str]
) -> str:
    title = text(cut(tiles[tile_id].title))
    caption = f'<b>{name}</b>{text(said)}<br><span dir="auto">{title}</span> <code>{text(tile_id)}</code>'
    return (
        f'<figure class="{kind}"><figcaption>{caption}</figcaption><div class="tile">{pictures[tile_id]}</div></figure>'
    )


def _said(looked: Looked | None) -> str:
    return "of an earlier round" if looked is None else f"rank {looked.rank}, score {looked.score:.3f}"


def _verdict(looked: Looked) -> str:
    read = "" if looked.answer is None else f"; read on the tile: {looked.answer}"
    by = f" by {looked.by}" if looked.by else ""
    return f"{looked.outcome}{by}{read}"
