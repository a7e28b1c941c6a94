"""Hand-made tiles whose every fact is known (and invented)."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tilewright.data_gen.records import Block, Tile


def _block(kind: str, text: str = "", cells: Sequence[str] = (), **fields: Any) -> Block:
    """A block; the text of a row is that of its cells."""
    values = {"labels": ("",) * len(cells), "section": "", "caption": "", "whole": True} | fields
    text = text or " ".join(cell for cell in cells if cell)
    return Block(kind, text, tuple(cells), x_px=0, y_px=0, width_px=50, height_px=10, **values)


def _tile(title: str, blocks: Sequence[Block], row: int = 0, text: str | None = None) -> Tile:
    """A tile without image and words."""
    page_id = hashlib.sha256(title.encode()).hexdigest()[:16]
    text = "\n".join(block.text for block in blocks) if text is None else text
    evidence = {"infobox": 0, "table": 0, "list": 0, "paragraph": 0}
    place = (row, 0, 0, 1024 * row, 875, 1024)
    return Tile(
        f"{page_id}-{row:04d}-00", page_id, f"https://x.org/{title}", title, *place, b"", "0" * 64, text, evidence,
        blocks=tuple(blocks),
    )  # fmt: skip


@pytest.fixture(scope="session")
def make_block() -> Callable[..., Block]:
    return _block


@pytest.fixture(scope="session")
def make_tile() -> Callable[..., Tile]:
    return _tile


@pytest.fixture(scope="session")
def known_tiles() -> list[Tile]:
    """Three pages, five tiles: a person with an infobox, a place with a table, a thing."""
    person = [
        _block("heading", "Mary Quillfeather"),
        _block("infobox_row", cells=("Born", "3 May 1801 (aged 79) Eastmarch, Norrland")),
        _block("infobox_row", cells=("Alma mater", "University of Eastmarch")),
        _block("infobox_row", cells=("Children", "7 (two died young)")),
        _block(
            "paragraph",
            "Mary Quillfeather was a botanist from Norrland. In 1824, Quillfeather described the silver fern of the"
            " Harrow Islands. She married Thomas Ode in Eastmarch on 9 June 1830. Her garden held 1,250"
            " species of moss.",
        ),
    ]
    later = [
        _block("paragraph", "Quillfeather founded the Norrland Moss Society in 1841.", section="Later life"),
        _block("list_item", "Ferns of the Harrow Islands (1833)", section="Works"),
        _block("list_item", "Length: 140 mm", section="Measures"),
    ]
    columns = ("Town", "Population (1900)", "Mayor")
    place = [
        _block("heading", "Norrland"),
        _block("table_row", cells=columns, section="Towns"),
        _block("table_row", cells=("Eastmarch", "12,400", "Olaf Brandt"), labels=columns, section="Towns"),
        _block("table_row", cells=("Westhaven", "8,050", "Ines Krol"), labels=columns, section="Towns"),
        _block("paragraph", "Norrland has been a member of the Coastal League since 1877. It is a cold country."),
    ]
    history = [_block("paragraph", "About 62% of the forests of Norrland burnt in the Great Fire of 1903.")]
    thing = [
        _block("heading", "Moss clock"),
        _block("paragraph", "The moss clock was invented by Thomas Ode in 1829 in the town of Westhaven."),
    ]
    return [
        _tile("Mary Quillfeather", person),
        _tile("Mary Quillfeather", later, row=1),
        _tile("Norrland", place),
        _tile("Norrland", history, row=1),
        _tile("Moss clock", thing),
    ]
