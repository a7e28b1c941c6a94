"""Stage: drawn tiles with an invented title and six short facts, questions on them, splits without a common word.

A corpus that a small model can learn to read from nothing: held-out tiles have words of their own, made of the same
syllables as those of training.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.configs.bounds import check_bounds
from tilewright.configs.stage import Counts, Inputs, Stage, main
from tilewright.data_gen.drawn_page import FACT_PX, HEIGHT_PX, WIDTH_PX, Fonts, Layout, draw_page, load_fonts
from tilewright.data_gen.images import encode_png, image_sha256, to_rgb
from tilewright.data_gen.invented_words import InventedWords
from tilewright.data_gen.records import QAPair, TextPair, Tile, TrainingExample, write_jsonl
from tilewright.data_gen.splits import SPLITS
from tilewright.data_gen.tile_store import EVIDENCE_KINDS, write_store
from tilewright.data_gen.urls import page_id

FACT_NAMES = (
    "animal",
    "capital",
    "dance",
    "dish",
    "festival",
    "flower",
    "founder",
    "harbour",
    "language",
    "mountain",
    "painter",
    "river",
)
FACTS = 6
EVIDENCE = "list"
PROMPT_WORDS = (  # of every prompt of an embedder: a tokenizer that doesn't know them spells them letter by letter
    "system Represent the user's input. Retrieve images or text relevant to the user's query. user assistant"
)
ANNOTATOR = "make_title_tiles/1"


@dataclass(frozen=True)
class Config:
    """How many tiles to draw for each split (``tiles``), and how many of their six facts to ask for.

    ``layout``: `list` (title on top, a fact a line) or `cards` (title lower and further right, facts in two columns,
    each value below its name). ``font``: the file name of an installed font; null: the one inside Pillow.
    ``syllables``: how many different ones the words are made of. No two splits share a word; titles are unique.
    """

    out: Path
    seed: int
    tiles: dict[str, int]
    queries_per_tile: int
    layout: Layout
    font: str | None
    syllables: int = 40

    def __post_init__(self) -> None:
        if set(self.tiles) != set(SPLITS) or min(self.tiles.values()) < 0:
            raise ValueError(f"tiles: wanted a number for each of {list(SPLITS)}, found {self.tiles}")
        check_bounds(self, 1, FACTS, "queries_per_tile")


@dataclass(frozen=True)
class Sheet:
    """What one tile says: a title of two words and six facts (name to value), of which those in ``asked`` are asked."""

    page_id: str
    url: str
    title: str
    facts: dict[str, str]
    asked: tuple[str, ...]

    @property
    def tile_id(self) -> str:
        """The page is one tile."""
        return f"{self.page_id}-0000-00"

    def text(self) -> str:
        """What is written on the tile, top to bottom."""
        return "\n".join([self.title, *(f"{name}: {value}" for name, value in self.facts.items())])


def make_title_tiles(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write ``store/``, examples.jsonl, ``splits/`` as split_pairs does, text_pairs.jsonl as text_pairs does (a
    question and the text of its tile), and ``training_text/``, a store without pictures: the text of training tiles
    and their questions, for a tokenizer that has seen no held-out word.

    Raises InputError for a font that isn't installed and for too few syllables.
    """
    fonts = load_fonts(config.font)
    words = InventedWords(config.seed, config.syllables)
    sheets = {split: make_sheets(config, words, split) for split in SPLITS}
    every = sorted((sheet for split in SPLITS for sheet in sheets[split]), key=lambda sheet: sheet.tile_id)
    training = sorted(sheets["train"], key=lambda sheet: sheet.tile_id)
    write_store(out / "store", (drawn(sheet, config.layout, fonts) for sheet in every))
    write_store(out / "training_text", (with_questions(sheet, config) for sheet in training), keep_images=False)
    pairs = {split: [pair for sheet in sheets[split] for pair in make_pairs(sheet, config)] for split in SPLITS}
    write_jsonl(
        out / "examples.jsonl",
        (TrainingExample(pair.query_id, pair.query, pair.tile_id, ()) for pair in pairs["train"]),
    )
    texts = {sheet.page_id: sheet.text() for sheet in training}
    write_jsonl(
        out / "text_pairs.jsonl",
        (TextPair(pair.query_id, pair.query, texts[pair.page_id], pair.page_id, ANNOTATOR) for pair in pairs["train"]),
    )
    write_splits(out / "splits", sheets, pairs)
    return {split: {"tiles": len(sheets[split]), "queries": len(pairs[split])} for split in SPLITS}


def make_sheets(config: Config, words: InventedWords, split: str) -> list[Sheet]:
    """The sheets of a split, each with a title of its own."""
    state = random.Random(f"{config.seed}/{split}")
    sheets: dict[str, Sheet] = {}
    while len(sheets) < config.tiles[split]:
        first, second, *values = words.draw(state, split, 2 + FACTS)
        names = state.sample(FACT_NAMES, FACTS)
        asked = tuple(state.sample(names, config.queries_per_tile))
        title = f"{first} {second}"
        url = f"https://title-tiles.invalid/{config.seed}/{config.layout}/{title.replace(' ', '_')}"
        sheets[title] = Sheet(page_id(url), url, title, dict(zip(names, values, strict=True)), asked)
    return list(sheets.values())


def undrawn(sheet: Sheet) -> Tile:
    """The tile of a sheet without its picture."""
    return Tile(
        tile_id=sheet.tile_id,
        page_id=sheet.page_id,
        url=sheet.url,
        title=sheet.title,
        row=0,
        column=0,
        x_px=0,
        y_px=0,
        width_px=WIDTH_PX,
        height_px=HEIGHT_PX,
        image=b"",
        image_sha256="",
        text=sheet.text(),
        evidence_px={kind: FACTS * FACT_PX * WIDTH_PX if kind == EVIDENCE else 0 for kind in EVIDENCE_KINDS},
    )


def drawn(sheet: Sheet, layout: Layout, fonts: Fonts) -> Tile:
    """The tile of a sheet."""
    image = draw_page(sheet.title, sheet.facts, layout, fonts)
    return replace(undrawn(sheet), image=encode_png(image), image_sha256=image_sha256(to_rgb(image)))


def with_questions(sheet: Sheet, config: Config) -> Tile:
    """The tile of a sheet without its picture; below its text its questions and the words of a prompt."""
    tile, questions = undrawn(sheet), [pair.query for pair in make_pairs(sheet, config)]
    return replace(tile, text="\n".join([tile.text, *questions, PROMPT_WORDS]))


def make_pairs(sheet: Sheet, config: Config) -> Iterator[QAPair]:
    """One question for each fact that is asked for; it names the title and the fact."""
    for name in sheet.asked:
        value = sheet.facts[name]
        yield QAPair(
            query_id=f"{sheet.page_id}-{name}",
            query=f"{sheet.title}: what is its {name}?",
            answer=value,
            aliases=(),
            tile_id=sheet.tile_id,
            page_id=sheet.page_id,
            source_span=f"{name}: {value}",
            source_type=EVIDENCE,
            subject=sheet.title,
            annotator=ANNOTATOR,
        )


def write_splits(folder: Path, sheets: dict[str, list[Sheet]], pairs: dict[str, list[QAPair]]) -> None:
    """One JSONL of pairs a split, and pages.json: {split: [page_id, ...]}."""
    folder.mkdir(exist_ok=True)
    for split, chosen in pairs.items():
        write_jsonl(folder / f"{split}.jsonl", chosen)
    listed = {split: sorted(sheet.page_id for sheet in chosen) for split, chosen in sheets.items()}
    (folder / "pages.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


STAGE = Stage("make_title_tiles", Config, make_title_tiles, schema=1)

if __name__ == "__main__":
    main(STAGE)
