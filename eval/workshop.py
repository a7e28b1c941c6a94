"""What the parts of rows are made from, and the work that several of them share: each piece is done once a run."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.errors import InputError
from tilewright.configs.stage import execution
from tilewright.data_gen.records import Tile
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.bm25 import tokens
from tilewright.eval.cache import Cache
from tilewright.eval.checkpoints import Checkpoint
from tilewright.eval.chunks import CountTokens
from tilewright.eval.page_texts import Pages
from tilewright.eval.parts import Item, Picture, Question
from tilewright.eval.questions import Pool
from tilewright.train.distributed import choose_device
from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.tokenizer import TOKENIZER_FILE, PromptTokenizer

T = TypeVar("T")
WORDS = "words"  # in place of a checkpoint's tokenizer
WORDS_AND_MARKS = "words_and_marks"  # likewise; each mark is a token, as it is to most tokenizers
_WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")
Precision = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class OcrConfig:
    """How pictures are read: tesseract ``language`` (``eng+deu``), enlarged ``scale`` times, at most ``processes`` at a
    time, each given up after ``timeout_s`` seconds."""

    language: str
    scale: float
    timeout_s: float
    processes: int = execution()

    def __post_init__(self) -> None:
        if self.scale <= 0 or self.processes < 1 or self.timeout_s <= 0:
            raise ValueError("wanted scale > 0, processes >= 1 and timeout_s > 0")


@dataclass(frozen=True)
class Workshop:
    """``store``: the tiles searched; ``rendered``: the same as readers are given them; ``pages``: their documents.

    ``checkpoints``, ``readers``: {name: model folder}; models run on ``device`` in ``precision``. ``out``: the stage's
    folder. ``cache`` outlives the run if the config names a folder for it.
    """

    store: TileStore
    rendered: TileStore
    pool: Pool
    questions: Sequence[Question]
    pages: Pages | None
    checkpoints: Mapping[str, Checkpoint]
    readers: Mapping[str, Checkpoint]
    ocr: OcrConfig
    cache: Cache
    out: Path
    device: str = "auto"
    precision: Precision = "float32"
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What ``make`` gives, made when it is first asked for under ``name``."""
        if name not in self._made:
            self._made[name] = make()
        found: T = self._made[name]
        return found

    @property
    def place(self) -> torch.device:
        """Where models run."""
        return choose_device(self.device)

    @property
    def dtype(self) -> torch.dtype:
        """What models compute in."""
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[self.precision]

    def encoder(self, name: str) -> Encoder:
        """The encoder of a checkpoint, ready to encode queries."""
        folder = self.checkpoints[name].folder
        return self.once(f"encoder {name}", lambda: load_encoder(folder, device=self.place, dtype=self.dtype))

    @property
    def dom_texts(self) -> Mapping[str, str]:
        """{tile_id: DOM text}."""
        return self.once("dom_texts", lambda: {tile.tile_id: tile.text for tile in self._light.values()})

    @property
    def _light(self) -> Mapping[str, Tile]:
        return self.once("light", lambda: {tile.tile_id: tile for tile in self.store.iterate_light()})

    @property
    def titles(self) -> Mapping[str, str]:
        """{page_id: title}."""
        return self.once("titles", lambda: {tile.page_id: tile.title for tile in self._light.values()})

    @property
    def kinds(self) -> Mapping[str, Mapping[str, int]]:
        """{tile_id: {kind of evidence: px² it covers}}."""
        return self.once("kinds", lambda: {tile.tile_id: tile.evidence_px for tile in self._light.values()})

    @property
    def urls(self) -> Mapping[str, str]:
        """{page_id: url}."""
        return self.once("urls", lambda: {tile.page_id: tile.url for tile in self._light.values()})

    @property
    def corpus_digest(self) -> str:
        """Of the tiles that are searched, by content."""
        return self.once("corpus", lambda: _digest({name: tile.image_sha256 for name, tile in self._light.items()}))

    def need_pages(self, who: str) -> Pages:
        """The documents behind the tiles. Raises InputError if the config names none."""
        if self.pages is None:
            raise InputError(f"{who}: wanted `pages` (the folder of make_pages), for it reads documents; found none")
        return self.pages

    def tile_item(self, tile_id: str) -> Item:
        """A tile as readers are given it. Raises InputError for an unknown one."""
        tile = self._light.get(tile_id)
        if tile is None:
            raise InputError(f"a row returned tile {tile_id!r}, which isn't among the {len(self.pool)} tiles searched")
        size = self.rendered.size_px(tile_id)
        picture = Picture(self.rendered.image_digest(tile_id), size, functools.partial(self.rendered.image, tile_id))
        position = self.pool.tiles_of[tile.page_id].index(tile_id)
        return Item(tile_id, tile.page_id, "tile", tile.text, picture, position, tile.title)

    def counter(self, tokenizer: str) -> CountTokens:
        """How a text's tokens are counted: by the tokenizer of a checkpoint or reader of that name, WORDS or
        WORDS_AND_MARKS. Raises InputError for another."""
        if tokenizer == WORDS:
            return lambda text: len(tokens(text))
        if tokenizer == WORDS_AND_MARKS:
            return lambda text: len(_WORD_OR_MARK.findall(text))
        model = self.checkpoints.get(tokenizer) or self.readers.get(tokenizer)
        if model is None or not (model.folder / TOKENIZER_FILE).is_file():
            known = f"{WORDS!r}, {WORDS_AND_MARKS!r} or a checkpoint with {TOKENIZER_FILE}"
            raise InputError(f"tokenizer: wanted {known}, found {tokenizer!r}")
        loaded = self.once(f"tokenizer {tokenizer}", lambda: PromptTokenizer.from_folder(model.folder))
        return lambda text: len(loaded.text([text])[0])

    def html_of(self, item_id: str) -> str | None:
        """The HTML of its own that a retriever of this run gave an item; None without."""
        html: dict[str, str] = self.once("html", dict)
        return html.get(item_id)

    def keep_html(self, html: Mapping[str, str]) -> None:
        """Remember {item_id: HTML} for deliveries."""
        self.once("html", dict[str, str]).update(html)

    def ocr_texts(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """({tile_id: text}, {tile_id: error}) of all tiles searched, read by tesseract once for all rows."""
        from tilewright.eval.ocr import read_pictures

        def read() -> tuple[Mapping[str, str], Mapping[str, str]]:
            pictures = {
                name: Picture(
                    tile.image_sha256, (tile.width_px, tile.height_px), functools.partial(self.store.image, name)
                )
                for name, tile in self._light.items()
            }
            texts, errors = read_pictures(list(pictures.values()), self.ocr, self.cache)
            digests = {name: picture.sha256 for name, picture in pictures.items()}
            return (
                {name: texts[digest] for name, digest in digests.items() if digest in texts},
                {name: errors[digest] for name, digest in digests.items() if digest in errors},
            )

        return self.once("ocr", read)


def _digest(values: Mapping[str, str]) -> str:
    return digest_text(canonical_json(values))
