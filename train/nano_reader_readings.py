"""A nano reader's eyes: each tile is read once by a tower at a compression, and what was read is kept by content."""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import torch
from PIL import Image

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.train.nano import NanoConfig, NanoModel
from tilewright.train.nano_reader_features import Page, page_of_words
from tilewright.train.nano_reader_words import DIMENSION, SCALE, TileWords, pixels_of, read_words
from tilewright.train.pretrained import load_pretrained, read_config
from tilewright.train.weights import weights_digest

FORMAT = 1  # raised when the words of a tile mean something else
KEPT = 600  # tiles at a compression, of some 1.5 MB each


def load_tower(folder: Path) -> NanoModel:
    """The nano of a model folder, in float32. Raises InputError as ``load_pretrained``."""
    model = load_pretrained(NanoModel, read_config(NanoConfig, folder), folder, torch.float32)
    assert isinstance(model, NanoModel)
    return model


class Readings:
    """What the tower of ``folder`` reads. ``identity`` names tower and format; ``kept`` is a folder that may be shared
    by any towers and processes, None: nothing outlives this object."""

    def __init__(self, folder: Path, kept: Path | None, *, bfloat16: bool = False) -> None:
        self.identity = digest_text(
            canonical_json([FORMAT, weights_digest(folder), DIMENSION, SCALE, "bfloat16" if bfloat16 else "float32"])
        )
        self._folder, self._bfloat16 = folder, bfloat16
        self._kept = None if kept is None else kept / self.identity[:32]
        self._model: NanoModel | None = None
        self._pages: OrderedDict[str, Page] = OrderedDict()
        self.read = 0
        """Tiles that had to be read."""

    def page(self, sha256: str, compression: float, shown: Callable[[], Image.Image]) -> Page:
        """The words of the picture that ``sha256`` names before compression; ``shown`` gives it compressed.

        Raises InputError if the picture is broken.
        """
        key = digest_text(f"{sha256}/{compression!r}")[:40]
        found = self._pages.pop(key, None)
        if found is None:
            found = page_of_words(self._words(key, compression, shown))
        self._pages[key] = found
        if len(self._pages) > KEPT:
            self._pages.popitem(last=False)
        return found

    def _words(self, key: str, compression: float, shown: Callable[[], Image.Image]) -> TileWords:
        path = None if self._kept is None else self._kept / f"{key}.npz"
        if path is not None and path.is_file():
            return TileWords.load(path)
        if self._model is None:
            self._model = load_tower(self._folder)
        words = read_words(self._model, pixels_of(shown(), compression), bfloat16=self._bfloat16)
        self.read += 1
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            words.save(path)
        return words
