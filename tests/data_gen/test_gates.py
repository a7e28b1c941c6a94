"""Each gate stops what its name says, and only that."""

import dataclasses
from collections.abc import Callable

import pytest
from PIL import Image

from tilewright.data_gen.gates import GateConfig, first_failed, gates, ink_share, is_blocked, text_density
from tilewright.data_gen.records import Block, Page, Tile

PAGE = Page("0" * 16, "https://en.wikipedia.org/wiki/Norrland", "Norrland", "", "wiki_dump", 60, 4000, True, 5)
CONFIG = GateConfig(3000, True, ("*(disambiguation)*", "Category:*", "* births"), 0.7, 3, 4.0, 0.1, 12)


@pytest.fixture
def tile(make_tile: Callable[..., Tile], make_block: Callable[..., Block]) -> Tile:
    return make_tile("Norrland", [make_block("paragraph", "Four words stand here.")])


def stopped(page: Page, tile: Tile, config: GateConfig = CONFIG, image: Image.Image | None = None) -> str | None:
    shown = image or Image.linear_gradient("L").convert("RGB")
    return first_failed(gates(config), page, tile, lambda: shown)


def test_a_good_tile_passes_all(tile: Tile) -> None:
    assert stopped(PAGE, tile) is None


def test_each_gate_by_its_name(tile: Tile) -> None:
    assert stopped(dataclasses.replace(PAGE, height_px=2999), tile) == "page_height"
    assert stopped(dataclasses.replace(PAGE, height_px=3000), tile) is None
    assert stopped(dataclasses.replace(PAGE, complete=False), tile) == "incomplete_page"
    assert stopped(dataclasses.replace(PAGE, title="Category:Moss"), tile) == "blocked_page"
    assert stopped(PAGE, dataclasses.replace(tile, y_px=2800)) == "beyond_first_share"
    assert stopped(PAGE, dataclasses.replace(tile, y_px=2799)) is None
    assert stopped(PAGE, dataclasses.replace(tile, text="two words")) == "few_words"
    assert stopped(PAGE, tile, image=Image.new("RGB", (10, 10), "white")) == "little_ink"
    assert stopped(PAGE, dataclasses.replace(tile, text="Now three words")) == "low_text_density"
    assert stopped(PAGE, dataclasses.replace(tile, text="Now three words", height_px=512)) is None


def test_thresholds_off(tile: Tile) -> None:
    off = GateConfig(0, False, (), 1.0, 0, 0.0, 0.0, None)
    page = dataclasses.replace(PAGE, height_px=100, complete=False, title="Ode (disambiguation)")
    assert stopped(page, tile, off) is None


def test_images_are_loaded_only_by_the_gate_that_looks(tile: Tile) -> None:
    def no_image() -> Image.Image:
        raise AssertionError("loaded")

    assert first_failed(gates(CONFIG), dataclasses.replace(PAGE, height_px=1), tile, no_image) == "page_height"
    assert first_failed(gates(dataclasses.replace(CONFIG, min_ink=0.0)), PAGE, tile, no_image) is None


def test_text_density_is_words_per_megapixel(tile: Tile) -> None:
    assert text_density(dataclasses.replace(tile, width_px=1000, height_px=500)) == pytest.approx(4 / 0.5)
    assert text_density(dataclasses.replace(tile, text=" ")) == 0


@pytest.mark.parametrize("bits", [-1, 32])
def test_impossible_distances(bits: int) -> None:
    with pytest.raises(ValueError, match="near_duplicate_bits: wanted 0 to 31, or null"):
        dataclasses.replace(CONFIG, near_duplicate_bits=bits)


@pytest.mark.parametrize(
    ("url", "title", "blocked"),
    [
        ("https://en.wikipedia.org/wiki/Ode_(disambiguation)", "Ode", True),
        ("https://en.wikipedia.org/wiki/Ode_%28disambiguation%29", "Ode", True),
        ("https://en.wikipedia.org/wiki/category:moss", "moss", True),
        ("https://en.wikipedia.org/wiki/X", "1801 births", True),
        ("https://en.wikipedia.org/wiki/1801_births", "1801", True),
        ("https://en.wikipedia.org/wiki/Births", "Births", False),
        ("https://en.wikipedia.org/wiki/Disambiguation", "Disambiguation", False),
        ("https://en.wikipedia.org/wiki/Subcategory:x/Category", "A Category", False),
    ],
)
def test_blocklist_of_titles_and_urls(url: str, title: str, blocked: bool) -> None:
    page = dataclasses.replace(PAGE, url=url, title=title)
    assert is_blocked(page, CONFIG.blocked) is blocked


def test_only_the_star_is_a_wildcard() -> None:
    page = dataclasses.replace(PAGE, title="Who? [sic] (1999)", url="https://example.org/x")
    for pattern, blocked in (("who? [sic]*", True), ("who?_[sic] (1999)", True), ("who. *", False), ("wh?? *", False)):
        assert is_blocked(page, (pattern,)) is blocked, pattern


def test_ink_is_measured_against_the_background_whatever_its_colour() -> None:
    for paper, ink in (("white", "black"), ("black", "white"), ("#ffeeaa", "#003300")):
        image = Image.new("RGB", (40, 40), paper)
        image.paste(Image.new("RGB", (20, 20), ink), (5, 5))
        assert ink_share(image) == pytest.approx(0.25)
    assert ink_share(Image.new("RGB", (5, 5), "red")) == 0.0
