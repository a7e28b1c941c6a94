"""Stage: pictures of a few large words from a closed list, asked by place or colour: what a tiny reader can learn.

A question names a place or a colour and its answer is the word there: a right answer needs reading and finding. The
words' order and colours on a held-out picture are together on no training picture.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, main
from tilewright.data_gen.images import encode_png, image_sha256
from tilewright.data_gen.records import ReaderExample, Tile, write_jsonl
from tilewright.data_gen.tile_store import EVIDENCE_KINDS, write_store
from tilewright.data_gen.urls import page_id
from tilewright.train.reader_prompt import INSTRUCTION

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}
PAPER = (128, 128, 128)  # nothing, once pixels are normalised; seen from it, COLOURS are a tetrahedron's corners
PLACES = ("upper", "lower")
FONT_PX = 48  # of Pillow's own font, whose capitals are then LETTER_PX high
LETTER_PX = 33
MOVED_PX = 4  # at most, from the middle of a word's line
REPEATED = 20  # how often the tokenizer's text says everything


@dataclass(frozen=True)
class Config:
    """Scenes of three splits: two of ``words``, above each other, in two colours, on squares of ``side_px``.

    ``copies``: pictures of each training scene, each with the words moved a little and one question; ``alone`` of them
    show one of its words only, which is easier to learn from. Scenes for validation and testing have one picture with
    both words, and all four of their questions. A row is shown compressed by ``compression``. ``words``: in capital
    letters.
    """

    out: Path
    seed: int
    train: int
    validation: int
    test: int
    copies: int
    alone: float
    words: tuple[str, ...]
    compression: float
    side_px: int = 144

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "train", "validation", "test", "copies", "compression")
        check_bounds(self, 0, 1, "alone")
        if len(set(self.words)) < len(PLACES) or not all(word.isascii() and word.isupper() for word in self.words):
            raise ValueError(f"words: wanted two or more different ones in capital letters, found {self.words}")


@dataclass(frozen=True)
class Scene:
    """What a picture says: the words from top to bottom, and their colours."""

    words: tuple[str, ...]
    colours: tuple[str, ...]

    def question(self, place: int, by_colour: bool) -> str:
        """What asks for the word at ``place``."""
        return f"What is the {self.colours[place] if by_colour else PLACES[place]} word?"


def make_word_tiles(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write ``store/``, ``examples/`` ({train,validation,test}.jsonl, as make_reader_data does) and
    ``training_text/``, a store without pictures for a tokenizer.

    Raises InputError if there are fewer different scenes than asked for, or a word is wider than a picture.
    """
    scenes = [Scene(words, colours) for words in permutations(config.words, 2) for colours in permutations(COLOURS, 2)]
    wanted = config.train + config.validation + config.test
    if len(scenes) < wanted:
        raise InputError(f"words: {len(config.words)} give {len(scenes)} scenes, wanted {wanted}: give more words")
    chosen = random.Random(f"{config.seed}/scenes").sample(scenes, wanted)
    rows = {
        "train": [row for scene in chosen[: config.train] for row in training_rows(scene, config)],
        "validation": [row for scene in chosen[config.train : -config.test] for row in held_out_rows(scene, config)],
        "test": [row for scene in chosen[-config.test :] for row in held_out_rows(scene, config)],
    }
    tiles = {tile.tile_id: tile for split in rows.values() for tile, _ in split}
    write_store(out / "store", (tiles[tile_id] for tile_id in sorted(tiles)))
    write_store(out / "training_text", [text_of(config)], keep_images=False)
    (out / "examples").mkdir(exist_ok=True)
    counts: Counts = {"scenes": len(scenes), "words": len(config.words), "tiles": len(tiles)}
    for split, made in rows.items():
        counts[f"{split}_examples"] = write_jsonl(out / f"examples/{split}.jsonl", (example for _, example in made))
    return counts


def training_rows(scene: Scene, config: Config) -> Iterator[tuple[Tile, ReaderExample]]:
    """``copies`` pictures of a scene, one question each, all by digest of the scene."""
    for copy in range(config.copies):
        url = _url(scene, f"{copy}")
        state = random.Random(f"{config.seed}/{url}")
        answer, by_colour = state.randrange(len(PLACES)), state.random() < 0.5
        shown = (answer,) if state.random() < config.alone else (0, 1)
        tile = tile_of(scene, shown, url, config)
        yield tile, _example(tile, scene.words[answer], scene.question(answer, by_colour), config)


def held_out_rows(scene: Scene, config: Config) -> Iterator[tuple[Tile, ReaderExample]]:
    """One picture of a scene with all its questions."""
    tile = tile_of(scene, (0, 1), _url(scene, "held-out"), config)
    for answer, by_colour in product(range(len(PLACES)), (False, True)):
        yield tile, _example(tile, scene.words[answer], scene.question(answer, by_colour), config)


def _url(scene: Scene, name: str) -> str:
    return "/".join(("https://word-tiles.invalid", *scene.words, *scene.colours, name))


def _example(tile: Tile, answer: str, question: str, config: Config) -> ReaderExample:
    query_id = f"{tile.page_id}-{question.split()[3]}"
    return ReaderExample(query_id, question, answer, (tile.tile_id,), 0, config.compression)


def tile_of(scene: Scene, shown: Sequence[int], url: str, config: Config) -> Tile:
    """A picture of a scene with its words at the places ``shown``."""
    image, page = draw(scene, shown, config.side_px, random.Random(f"{config.seed}/moved/{url}")), page_id(url)
    return Tile(
        tile_id=f"{page}-0000-00",
        page_id=page,
        url=url,
        title=" ".join(scene.words),
        row=0,
        column=0,
        x_px=0,
        y_px=0,
        width_px=image.width,
        height_px=image.height,
        image=encode_png(image),
        image_sha256=image_sha256(image),
        text="\n".join(scene.words[place] for place in shown),
        evidence_px=dict.fromkeys(EVIDENCE_KINDS, 0),
    )


def draw(scene: Scene, shown: Sequence[int], side_px: int, state: random.Random) -> Image.Image:
    """The words of ``scene`` at the places ``shown``, each in the middle of its line but for MOVED_PX.

    Raises InputError if one doesn't fit.
    """
    image = Image.new("RGB", (side_px, side_px), PAPER)
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(size=FONT_PX)
    line_px = side_px // len(scene.words)
    for place in shown:
        word, colour = scene.words[place], COLOURS[scene.colours[place]]
        left, top, right, bottom = font.getbbox(word)
        across, down = side_px - (right - left), line_px - (bottom - top)
        if min(across, down) < 2 * MOVED_PX:
            raise InputError(f"words: {word} takes {right - left:g} px of {side_px}, wanted {2 * MOVED_PX} px to spare")
        x_px, y_px = (free / 2 + state.uniform(-MOVED_PX, MOVED_PX) for free in (across, down))
        pen.text((round(x_px - left), round(place * line_px + y_px - top)), word, fill=colour, font=font)
    return image


def text_of(config: Config) -> Tile:
    """All that a prompt or an answer can say, often enough that each word becomes one token."""
    asked = [f"Question: What is the {name} word?" for name in (*PLACES, *COLOURS)]
    text = "\n".join([INSTRUCTION, *asked, *config.words, "user", "assistant"] * REPEATED)
    scene = Scene(config.words[:2], ("red", "white"))
    return replace(tile_of(scene, (), _url(scene, "text"), config), text=text)


STAGE = Stage("make_word_tiles", Config, make_word_tiles, schema=1)

if __name__ == "__main__":
    main(STAGE)
