"""The review page as text: what stands in it, what it is made of, how large it gets."""

import dataclasses
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.data_gen.review_items import items_of, pair_of, tile_of, write

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.pair_outcomes import outcome_of
from tilewright.data_gen.records import Block, Tile
from tilewright.data_gen.review import ReviewItem, write_outcome_review, write_review
from tilewright.data_gen.review_page import REVIEW
from tilewright.data_gen.tile_store import TileStore, write_store


@pytest.fixture
def store(make_tile: Callable[..., Tile], make_block: Callable[..., Block], tmp_path: Path) -> TileStore:
    """Five pages with one tile each. The pixels of their words "42 km" are blue; the fifth's are hostile; no words in
    the fourth."""
    return TileStore.open(write(tmp_path / "store", [tile_of(make_tile, make_block, n) for n in range(5)]))


def test_the_page_as_text(store: TileStore, tmp_path: Path) -> None:
    items, path = items_of(store), tmp_path / "review.html"
    write_review(path, items, store, title="answerable")
    html = path.read_text(encoding="utf-8")
    articles = html.split("<article")[1:]
    assert html.count("<script") == 1 and "hacked=1</" not in html and "\x00" not in html
    assert {address.split(":")[0] for address in re.findall(r'href="([^"]*)', html)} == {"https", "data"}
    framed, lost = "framed in the picture", "span not found in the DOM text"
    for article, places in zip(articles, [framed, framed, lost, f"{lost}: the tile has none", lost], strict=True):
        assert f'<span class="places">{places}</span>' in article
        assert ("<rect" in article) is places.startswith("framed")
    for shown in ("Question 1?", "42 kilometres", "infobox", ">Light 1<", "en.wikipedia.org/wiki/Light_1", "said 1"):
        assert shown in articles[1], shown
    assert "x … (9000 characters)" in articles[4]
    write_review(tmp_path / "again.html", items, store, title="answerable")
    assert (tmp_path / "again.html").read_bytes() == path.read_bytes()


def test_marks_belong_to_the_pairs_shown(store: TileStore, tmp_path: Path) -> None:
    def key(items: list[ReviewItem]) -> str:
        write_review(tmp_path / "r.html", items, store, title="t")
        return (tmp_path / "r.html").read_text(encoding="utf-8").split('data-sample="')[1][:64]

    items = items_of(store)
    assert key(items) == key(items[::-1])
    changed = dataclasses.replace(items[0], pair=dataclasses.replace(items[0].pair, answer="43 km"))
    others = [items[1:], [changed, *items[1:]], [dataclasses.replace(items[0], outcome="wrong"), *items[1:]]]
    assert len({key(items), *map(key, others)}) == 4


def test_a_stage_writes_its_review(store: TileStore, tmp_path: Path) -> None:
    pairs = list(enumerate(item.pair for item in items_of(store)[:4]))
    facts = {"answer": None, "verdict": "CORRECT", "by": "judge", "score": 4}
    outcomes = [outcome_of(n, pair, ("kept", "wrong", "error", "kept")[n], facts) for n, pair in pairs]
    write_outcome_review(tmp_path, outcomes, pairs, store, number=0, seed=1, title="answerable")
    assert not (tmp_path / REVIEW).exists()
    write_outcome_review(tmp_path, outcomes, pairs, store, number=50, seed=1, title="answerable")
    html = (tmp_path / REVIEW).read_text(encoding="utf-8")
    assert html.count("<article") == 3 and "Question 2?" not in html
    for fact in ("<dt>answer of the reader</dt>", ">null<", "<dt>decided by</dt>", ">CORRECT<", ">4<"):
        assert fact in html, fact


def test_pictures_that_are_missing_and_tiles_that_are(store: TileStore, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    write_store(bare, store, keep_images=False)
    write_review(tmp_path / "r.html", items_of(store)[:1], TileStore.open(bare), title="t")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<img" not in html and "is missing or broken" in html and str(tmp_path) not in html
    lost = [ReviewItem(pair_of(1, tile_id="0" * 16 + "-0000-00"), "kept")]
    with pytest.raises(InputError, match="0000-00"):
        write_review(tmp_path / "r.html", lost, store, title="t")
    twice = items_of(store)[:1] * 2
    with pytest.raises(InputError, match="stands twice"):
        write_review(tmp_path / "r.html", twice, store, title="t")
    write_review(tmp_path / "none.html", [], store, title="t")
    assert "The sample is empty" in (tmp_path / "none.html").read_text(encoding="utf-8")


def test_a_hundred_pictures_of_noise_fit(make_tile: Callable[..., Tile], tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (1024, 875, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    tile = dataclasses.replace(
        make_tile("Noise", []), image=buffer.getvalue(), image_sha256=image_sha256(Image.fromarray(pixels))
    )
    folder = write(tmp_path / "store", [tile])
    items = [ReviewItem(pair_of(n, tile_id=tile.tile_id), "kept", {"judge": "said " * 40}) for n in range(100)]
    write_review(tmp_path / "r.html", items, TileStore.open(folder), title="t")
    assert 5_000_000 < (tmp_path / "r.html").stat().st_size <= 15_000_000
