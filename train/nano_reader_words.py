"""What a nano reader has of a tile: its words as nano reads them, where they stand, and their letters as vectors.

A word's vector is the sum of its trigrams, each letter with the probability that it was read with (see
``nano_binding``), so that a word read badly still resembles the word that stands there.
"""

import io
import math
import os
import tokenize
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import to_rgb
from tilewright.train.nano import CELLS, PATCH_PX, NanoModel, Reading
from tilewright.train.nano_binding import Binding
from tilewright.train.nano_characters import BLANK, BOUNDARY, LETTER_OF, LETTERS, letters_of, trigrams_of
from tilewright.train.nano_data import enlarged, padded, patches_of
from tilewright.train.nano_decoding import decode
from tilewright.train.nano_neighbours import heard

DIMENSION = 512  # of the vectors by which words are compared
SCALE = 500.0  # of vectors as they are stored: a component of a long word is some 0.2 at most
LIMIT = 127


@dataclass(frozen=True)
class TileWords:
    """The N words of a tile, row by row. ``cells`` int [M]: columns of cells of their M characters, word after word;
    ``rows`` int [N]: rows of patches; ``vectors`` int8 [N, DIMENSION], in 1 / SCALE; ``sure`` float32 [N]: mean
    probability of a word's letters; ``size`` of the tile as it was read, (rows of patches, columns of cells)."""

    texts: tuple[str, ...]
    cells: np.ndarray[Any, Any]
    rows: np.ndarray[Any, Any]
    vectors: np.ndarray[Any, Any]
    sure: np.ndarray[Any, Any]
    size: tuple[int, int]

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def ends(self) -> np.ndarray[Any, Any]:
        """[N] where each word's characters end in ``cells``."""
        return np.cumsum(np.array([len(text) for text in self.texts], dtype=np.int64))

    @cached_property
    def left(self) -> np.ndarray[Any, Any]:
        """[N] the cell of each word's first character."""
        starts = np.concatenate([[0], self.ends[:-1]]).astype(np.int64)[: len(self)]
        cells: np.ndarray[Any, Any] = self.cells[starts]
        return cells

    @cached_property
    def right(self) -> np.ndarray[Any, Any]:
        """[N] the cell of its last one."""
        cells: np.ndarray[Any, Any] = self.cells[self.ends - 1]
        return cells

    def save(self, path: Path) -> None:
        """Write ``path``, whole or not at all."""
        data = io.BytesIO()
        texts = np.frombuffer("\n".join(self.texts).encode("utf-8"), dtype=np.uint8)
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        np.savez(data, texts=texts, size=np.array(self.size), **arrays)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        temporary.write_bytes(data.getvalue())
        temporary.replace(path)

    @classmethod
    def load(cls, path: Path) -> "TileWords":
        """What ``save`` wrote. Raises InputError for anything else."""
        try:
            with np.load(path, allow_pickle=False) as found:
                text = found["texts"].tobytes().decode("utf-8")
                rows, columns = (int(side) for side in found["size"])
                arrays = {name: found[name] for name in _ARRAYS}
                words = cls(texts=tuple(text.split("\n") if text else ()), size=(rows, columns), **arrays)
        except _BROKEN as error:
            raise InputError(
                f"{path}: wanted the words of a tile ({error}): delete it to read the tile again"
            ) from error
        count, letters = len(words), sum(map(len, words.texts))
        shapes = ((letters,), (count,), (count, DIMENSION), (count,))
        wanted = dict(zip(_ARRAYS, zip("iiif", shapes, strict=True), strict=True))
        if {name: (part.dtype.kind, part.shape) for name, part in arrays.items()} != wanted or not all(words.texts):
            raise InputError(f"{path}: wanted arrays of {count} words: delete it to read the tile again")
        return words


_ARRAYS = ("cells", "rows", "vectors", "sure")
_BROKEN = (OSError, ValueError, TypeError, KeyError, EOFError, SyntaxError, zipfile.BadZipFile, tokenize.TokenError)
"""What NumPy raises for a file that isn't one of ours."""


@lru_cache(maxsize=1)
def word_binding() -> Binding:
    """Letters as vectors of DIMENSION, the same in every process."""
    return Binding(DIMENSION, seed=1)


def pixels_of(shown: Image.Image, compression: float) -> np.ndarray[Any, Any]:
    """uint8 [height, width, 3]: a picture that was compressed by ``compression``, enlarged back, as nano sees it."""
    return np.asarray(enlarged(to_rgb(shown), math.sqrt(compression)))


@torch.no_grad()
def read_words(model: NanoModel, pixels: np.ndarray[Any, Any], *, bfloat16: bool = False) -> TileWords:
    """Read uint8 [height, width, 3]."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        reading = model.read(model.page_states([page_patches(pixels)])[0])
    return words_of(reading)


def page_patches(pixels: np.ndarray[Any, Any]) -> Tensor:
    """uint8 [height, width, 3] -> patches as ``page_states`` takes them; sides are padded to whole patches."""
    height, width = (PATCH_PX * math.ceil(side / PATCH_PX) for side in pixels.shape[:2])
    return patches_of(torch.from_numpy(padded(pixels, height, width).copy())[None])[0]


@torch.no_grad()
def words_of(reading: Reading) -> TileWords:
    """The words of a page's cells."""
    page = decode(reading)
    rows, columns = np.nonzero(page.classes != BLANK)  # in the order of the words' characters
    lengths = np.array([len(word.text) for word in page.words], dtype=np.int64)
    ends = np.cumsum(lengths)
    places = torch.from_numpy(rows * page.classes.shape[1] + columns)
    vectors, sure = word_vectors(reading, places, np.repeat(np.arange(len(lengths)), lengths), len(lengths))
    return TileWords(
        texts=tuple(word.text for word in page.words),
        cells=columns.astype(np.int16),
        rows=rows[ends - 1].astype(np.int16),
        vectors=(vectors * SCALE).round().clamp(-LIMIT, LIMIT).to(torch.int8).numpy(),
        sure=sure.numpy().astype(np.float32),
        size=(page.classes.shape[0], page.classes.shape[1]),
    )


def word_vectors(reading: Reading, places: Tensor, owners: np.ndarray[Any, Any], count: int) -> tuple[Tensor, Tensor]:
    """(vectors [count, DIMENSION], sureness [count]) of words whose characters lie in the cells ``places`` [M]."""
    parts = [logits.flatten(0, -2)[places] for logits in (reading.characters, reading.before, reading.after)]
    letters, before, after = (letter_probabilities(part.float()) for part in parts)
    return vectors_of(letters, before, after, places, owners, count, reading.starts.shape[1] * CELLS)


def vectors_of(
    letters: Tensor,
    before: Tensor,
    after: Tensor,
    places: Tensor,
    owners: np.ndarray[Any, Any],
    count: int,
    width: int,
) -> tuple[Tensor, Tensor]:
    """``word_vectors`` from probabilities [M, LETTERS] of a page that is ``width`` cells wide.

    A vector's product with that of a text's word (``text_vectors``) is at most about 1, less where letters are unsure.
    """
    words = torch.from_numpy(owners)
    lines = places // width * (width * 2) + places % width  # rows lie too far apart to share a word
    own, first, last = heard(letters, before, after, lines)
    signs = word_binding().signs.float()
    bound = (first @ signs[0]) * (own @ signs[1]) * (last @ signs[2])
    sums = torch.zeros(count, DIMENSION).index_add(0, words, bound)
    held = torch.zeros(count).index_add(0, words, 1 - letters[:, BOUNDARY])
    best = torch.zeros(count).index_add(0, words, own.max(-1).values)
    return sums / (held.clamp_min(1) * DIMENSION).sqrt()[:, None], best / held.clamp_min(1)


def letter_probabilities(logits: Tensor) -> Tensor:
    """[N, LETTERS] from the logits of classes [N, CLASSES]."""
    fold = torch.nn.functional.one_hot(torch.from_numpy(LETTER_OF), LETTERS).float()
    return logits.softmax(-1) @ fold


def text_vectors(words: Sequence[str]) -> Tensor:
    """[words, DIMENSION] of words of a question: unit length, but for what trigrams have in common by chance."""
    trigrams = [trigrams_of(word) for word in words]
    owners = torch.from_numpy(np.repeat(np.arange(len(words)), [len(part) for part in trigrams]))
    joined = torch.from_numpy(np.concatenate([np.zeros(0, dtype=np.int64), *trigrams]))
    sums = word_binding().of_trigrams(joined, torch.ones(len(joined)), owners, len(words))
    lengths = torch.tensor([float(len(part)) for part in trigrams])
    return sums / (lengths.clamp_min(1) * DIMENSION).sqrt()[:, None]


def squashed(text: str) -> str:
    """A text's letters and digits alone, accents and case folded, in a form that can be searched."""
    return "".join(chr(int(letter) + 0x40) for letter in letters_of(text) if letter != BOUNDARY)
