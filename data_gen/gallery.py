"""A page that shows what the gates keep and drop, with the measured values, so that a person can judge thresholds."""

import argparse
import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.configs.load import load
from tilewright.configs.partial import write_atomically
from tilewright.data_gen.gates import NEAR_DUPLICATE, GateConfig, gates, ink_share, text_density
from tilewright.data_gen.html_page import document, link, text, webp_url
from tilewright.data_gen.near_duplicates import hash_distance, near_duplicates
from tilewright.data_gen.records import Page, Tile
from tilewright.data_gen.tile_store import TileStore

KEPT, NO_TEXT = "kept", "no_text"
THUMBNAIL_PX = (240, 320)
_QUALITY = 60
# what the gate compares, of (page, tile, ink): tiles are shown in order of their distance from the threshold
_MEASURES: dict[str, Callable[[Page, Tile, float], float]] = {
    "page_height": lambda page, tile, ink: page.height_px,
    "beyond_first_share": lambda page, tile, ink: tile.y_px / max(1, page.height_px),
    "few_words": lambda page, tile, ink: len(tile.text.split()),
    "low_text_density": lambda page, tile, ink: text_density(tile),
    "little_ink": lambda page, tile, ink: ink,
}


@dataclass(frozen=True)
class Judged:
    """A tile and its fate: ``stopped_by`` is a gate, NO_TEXT or KEPT. ``twin``: the tile kept in its place."""

    page: Page
    tile: Tile
    stopped_by: str
    ink: float
    hash: str
    twin: str = ""
    twin_distance: int = 0


def judge_tiles(store: TileStore, pages: dict[str, Page], config: GateConfig, max_tiles: int) -> list[Judged]:
    """The fate of every tile; of ``max_tiles`` of them, drawn by a digest of their ids, if there are more."""
    tile_ids: Iterable[str] = store.tile_ids
    if len(store) > max_tiles:
        tile_ids = sorted(sorted(tile_ids, key=_digest)[:max_tiles])
    judged = {tile_id: _judge(store, pages, config, tile_id) for tile_id in tile_ids}
    if config.near_duplicate_bits is None:
        return list(judged.values())
    kept = [item for item in judged.values() if item.stopped_by == KEPT]
    ids, sizes = [item.tile.tile_id for item in kept], [(item.tile.width_px, item.tile.height_px) for item in kept]
    twins = near_duplicates(ids, [item.hash for item in kept], sizes, config.near_duplicate_bits)
    return [_with_twin(item, twins, judged) for item in judged.values()]


def _judge(store: TileStore, pages: dict[str, Page], config: GateConfig, tile_id: str) -> Judged:
    from tilewright.data_gen.gated_tiles import look

    tile = store.light(tile_id)
    load_image = functools.cache(functools.partial(store.image, tile_id))
    found = look(pages, tile, gates(config), load_image, hashing=True)
    stopped_by = found.get("gate") or found.get("skip") or KEPT
    return Judged(pages[tile.page_id], tile, stopped_by, ink_share(load_image()), found.get("hash", ""))


def _with_twin(item: Judged, twins: dict[str, str], judged: dict[str, Judged]) -> Judged:
    twin = twins.get(item.tile.tile_id)
    if twin is None:
        return item
    distance = hash_distance(item.hash, judged[twin].hash)
    return Judged(item.page, item.tile, NEAR_DUPLICATE, item.ink, item.hash, twin, distance)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def gallery_html(store: TileStore, judged: Sequence[Judged], config: GateConfig, per_gate: int) -> str:
    """One HTML page without scripts or requests: a section a gate, at most ``per_gate`` tiles of each fate in it."""
    thresholds = _thresholds(config)
    sections = [_section(store, name, thresholds[name], judged, per_gate) for name in thresholds]
    sections.append(_kept_section(store, judged, per_gate))
    whole = f"{len(judged)} of {len(store)} tiles" if len(judged) < len(store) else f"all {len(store)} tiles"
    title = "Gates: kept and dropped tiles"
    body = (
        f"<main>\n<h1>{title}</h1>\n<p>Of {text(whole)}: each is counted under the first gate that stops it.</p>\n"
        f"{_summary(judged, thresholds)}\n" + "\n".join(sections) + "\n</main>"
    )
    return document(title, body, name="gallery")


def _thresholds(config: GateConfig) -> dict[str, str]:
    """{gate: its threshold in words}, in the order in which they're tried."""
    bits = config.near_duplicate_bits
    words = {
        "page_height": f"page at least {config.min_page_height_px} px high",
        "incomplete_page": "page captured as a whole" if config.require_complete else "off",
        "blocked_page": ", ".join(config.blocked) or "off",
        "beyond_first_share": f"tile starts in the first {config.first_share:.0%} of the page",
        "few_words": f"at least {config.min_words} words",
        "low_text_density": f"at least {config.min_text_density:g} words per megapixel",
        "little_ink": f"at least {config.min_ink:.2%} of the pixels off the background",
        NEAR_DUPLICATE: "off" if bits is None else f"hashes at most {bits} of 256 bits apart are one tile",
    }
    order = [NO_TEXT, *(gate.name for gate in gates(config)), NEAR_DUPLICATE]
    return {name: words.get(name, "a tile must show text") for name in order}


def _summary(judged: Sequence[Judged], thresholds: dict[str, str]) -> str:
    rows = []
    for name in (*thresholds, KEPT):
        count = sum(item.stopped_by == name for item in judged)
        share = count / max(1, len(judged))
        rows.append(
            f'<tr><th scope="row"><a href="#{text(name)}">{text(name)}</a></th>'
            f"<td>{text(thresholds.get(name, 'passed all of them'))}</td>"
            f'<td class="number">{count}</td><td class="number">{share:.1%}</td></tr>'
        )
    head = (
        '<tr><th scope="col">gate</th><th scope="col">passes</th><th scope="col">tiles</th><th scope="col"></th></tr>'
    )
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>"


def _section(store: TileStore, name: str, threshold: str, judged: Sequence[Judged], per_gate: int) -> str:
    kept = [item for item in judged if item.stopped_by == KEPT]
    stopped = [item for item in judged if item.stopped_by == name]
    measure = _MEASURES.get(name)
    parts = [f'<section id="{text(name)}">\n<h2>{text(name)}</h2>\n<p>Passes: {text(threshold)}.</p>']
    if name == NEAR_DUPLICATE:
        shown = sorted(stopped, key=lambda item: (-item.twin_distance, item.tile.tile_id))[:per_gate]
        parts.append(_figures(store, f"Dropped: {len(stopped)}, least alike first, with the tile kept", shown))
    elif measure is None:
        shown = sorted(stopped, key=lambda item: _digest(item.tile.tile_id))[:per_gate]
        parts.append(_figures(store, f"Dropped: {len(stopped)}", shown))
    else:
        down = name == "beyond_first_share"  # of all measures the one that has to be small

        def nearest(items: Sequence[Judged], highest_first: bool) -> list[Judged]:
            sign = -1 if highest_first else 1
            key = {item.tile.tile_id: sign * measure(item.page, item.tile, item.ink) for item in items}
            return sorted(items, key=lambda item: (key[item.tile.tile_id], item.tile.tile_id))[:per_gate]

        near, passed = nearest(stopped, not down), nearest(kept, down)
        parts.append(_figures(store, f"Dropped: {len(stopped)}, nearest to the threshold first", near))
        parts.append(_figures(store, "Kept, nearest to the threshold first", passed))
    return "\n".join([*parts, "</section>"])


def _kept_section(store: TileStore, judged: Sequence[Judged], per_gate: int) -> str:
    kept = [item for item in judged if item.stopped_by == KEPT]
    shown = sorted(kept, key=lambda item: _digest(item.tile.tile_id))[:per_gate]
    figures = _figures(store, f"Passed all gates: {len(kept)}; a sample", shown)
    return f'<section id="{KEPT}">\n<h2>{KEPT}</h2>\n{figures}\n</section>'


def _figures(store: TileStore, caption: str, items: Sequence[Judged]) -> str:
    figures = "\n".join(_figure(store, item) for item in items)
    return f'<h3>{text(caption)}</h3>\n<div class="tiles">\n{figures}\n</div>'


def _figure(store: TileStore, item: Judged) -> str:
    tile, page = item.tile, item.page
    values = [
        ("ink", f"{item.ink:.2%}"),
        ("words", str(len(tile.text.split()))),
        ("words/MP", f"{text_density(tile):.0f}"),
        ("tile", f"{tile.width_px} x {tile.height_px} px"),
        ("starts at", f"{tile.y_px} of {page.height_px} px"),
        ("page", "complete" if page.complete else "cut"),
    ]
    pictures = _picture(store, tile.tile_id)
    if item.twin:
        values.append(("bits apart", str(item.twin_distance)))
        pictures = f'<div class="pair">{pictures}{_picture(store, item.twin)}</div>'
    listed = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in values)
    named = link(tile.url, tile.title or tile.url)
    return (
        f"<figure>{pictures}<figcaption><strong>{named}</strong><code>{text(tile.tile_id)}</code>"
        f"<dl>{listed}</dl></figcaption></figure>"
    )


def _picture(store: TileStore, tile_id: str) -> str:
    image = store.image(tile_id)
    image.thumbnail(THUMBNAIL_PX, Image.Resampling.LANCZOS)
    size = f'width="{image.width}" height="{image.height}"'
    return f'<img {size} alt="tile {text(tile_id)}" src="{webp_url(image, _QUALITY)}">'


def write_gallery(tiles: Path, config: GateConfig, out: Path, *, per_gate: int, max_tiles: int) -> None:
    """Write the gallery of a folder of render_tiles as the file ``out``. Raises InputError for no or an empty store."""
    from tilewright.data_gen.gated_tiles import read_pages

    if per_gate < 1 or max_tiles < 1:
        raise InputError(f"wanted at least 1 tile a gate and in all, found {per_gate} and {max_tiles}")
    if out.is_dir():
        raise InputError(f"{out} is a folder: wanted the path of an HTML file to write")
    store = TileStore.open(tiles)
    if not len(store):
        raise InputError(f"{tiles}: the tile store is empty: render at least one page first")
    judged = judge_tiles(store, read_pages(tiles), config, max_tiles)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, gallery_html(store, judged, config, per_gate))


def run_gallery(options: argparse.Namespace) -> None:
    """What ``tilewright gallery`` does."""
    from tilewright.data_gen.make_queries import Config

    config: Any = load(options.gates[0], Config, options.gates[1:])
    write_gallery(options.tiles, config.gates, options.out, per_gate=options.per_gate, max_tiles=options.max_tiles)
    print(f"gallery: {options.out}")
