"""Letters of installed fonts as one tensor of ink: every face, size and sub-pixel place, trimmed to what is inked.

Glyphs are drawn at SUPERSAMPLING times their size and averaged down, so that no hinting is left, as in a browser that
runs with ``--font-render-hinting=none``; advances are linear. Kerning and ligatures are left out.
"""

import math
import multiprocessing
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.train.nano_characters import class_of

SUPERSAMPLING = 8
PHASES = 4
"""Places of a glyph's origin within a pixel, as many as Skia has."""
SPACE = 0  # the number of the blank's glyph, which has no ink
ASCII = "".join(map(chr, range(32, 127)))
BEYOND_ASCII = "ÀÁÂÄÅÇÈÉÊËÍÎÑÓÔÖØÚÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿŁłŠšŽžčćřśżĀāŌōūğış–—‘’“”•…°×±€£§©µ½"
STYLES = ("regular", "bold", "italic", "bold italic")
_STYLE_NAMES = {
    "regular": 0, "book": 0, "roman": 0, "medium": 0, "bold": 1, "italic": 2, "oblique": 2, "bold italic": 3,
    "bold oblique": 3, "bolditalic": 3, "boldoblique": 3,
}  # fmt: skip
_LARGE_PX = 2048  # advances and heights are taken at this size, where rounding no longer matters
FAMILIES = (
    "Liberation Sans", "Liberation Serif", "Liberation Mono", "Liberation Sans Narrow", "DejaVu Sans", "DejaVu Serif",
    "DejaVu Sans Mono", "FreeSans", "FreeSerif", "Noto Sans", "Noto Serif", "Noto Sans Mono", "Open Sans", "Roboto",
    "Lato", "Carlito", "Caladea", "Cantarell", "Linux Libertine O", "Linux Biolinum O",
)  # fmt: skip


@dataclass(frozen=True)
class Family:
    """Fonts of one name: the files of STYLES, None where there is none."""

    name: str
    files: tuple[Path | None, ...]


@dataclass(frozen=True)
class Atlas:
    """F faces, S sizes, P phases, G glyphs. ``ink`` uint8 [pixels]: all glyphs, row by row; ``offsets`` int64
    [F, S, P, G]: the first pixel of each; ``boxes`` int64 [F, S, P, G, 4]: its left and top from the pixel of the
    origin, width, height. ``advances`` float32 [F, S, G], ``ascents`` and ``descents`` int64 [F, S] in px. ``styles``
    int64 [families, STYLES]: faces. ``sizes_px`` int64 [S]. ``classes`` int64 [G]: what nano takes a glyph for."""

    ink: Tensor
    offsets: Tensor
    boxes: Tensor
    advances: Tensor
    ascents: Tensor
    descents: Tensor
    styles: Tensor
    sizes_px: Tensor
    classes: Tensor

    def to(self, device: torch.device) -> Self:
        """All tensors on ``device``."""
        return type(self)(*(getattr(self, field.name).to(device) for field in fields(self)))


@dataclass(frozen=True)
class Sheet:
    """One face as arrays, see Atlas; ``offsets`` count from the face's own first pixel."""

    ink: np.ndarray
    offsets: np.ndarray
    boxes: np.ndarray
    advances: np.ndarray
    ascents: np.ndarray
    descents: np.ndarray


def find_families(folder: Path, names: Iterable[str], alphabet: str) -> list[Family]:
    """Families of ``names`` that lie below ``folder`` as .ttf or .otf with a regular face; a face that lacks a
    character of ``alphabet`` is left out. Raises InputError if there is none."""
    wanted = set(names)
    found: dict[str, dict[int, Path]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".ttf", ".otf")):
        font = _font(path, 16)
        name, style = font.getname()
        number = _STYLE_NAMES.get((style or "").lower())
        if name in wanted and number is not None and _covers(font, alphabet):
            found.setdefault(name, {}).setdefault(number, path)
    families = [Family(name, tuple(files.get(number) for number in range(4))) for name, files in sorted(found.items())]
    families = [family for family in families if family.files[0] is not None]
    if not families:
        raise InputError(f"{folder}: wanted a font (.ttf or .otf) of one of {sorted(wanted)}, found none")
    return families


def make_atlas(families: Sequence[Family], sizes_px: Sequence[int], alphabet: str) -> Atlas:
    """Draw ``alphabet`` (its first character is the blank) in every face and size; on all cores if there are many."""
    assert alphabet[SPACE] == " "
    faces = sorted({path for family in families for path in family.files if path is not None})
    draw = partial(draw_face, sizes_px=tuple(sizes_px), alphabet=alphabet)
    workers = min(len(faces), os.cpu_count() or 1) if len(faces) > 4 else 1
    if workers > 1:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            sheets = list(pool.map(draw, faces))
    else:
        sheets = list(map(draw, faces))
    starts = np.cumsum([0, *(len(sheet.ink) for sheet in sheets[:-1])])
    styles = [[faces.index(path or family.files[0]) for path in family.files] for family in families]  # type: ignore[arg-type]
    return Atlas(
        ink=torch.from_numpy(np.concatenate([sheet.ink for sheet in sheets])),
        offsets=torch.from_numpy(
            np.stack([sheet.offsets + start for sheet, start in zip(sheets, starts, strict=True)])
        ),
        styles=torch.tensor(styles),
        sizes_px=torch.tensor(tuple(sizes_px)),
        classes=torch.tensor([class_of(ord(character)) for character in alphabet]),
        **{
            name: torch.from_numpy(np.stack([getattr(sheet, name) for sheet in sheets]))
            for name in ("boxes", "advances", "ascents", "descents")
        },
    )


def draw_face(path: Path, sizes_px: Sequence[int], alphabet: str) -> Sheet:
    """All glyphs of one face."""
    large = _font(path, _LARGE_PX)
    of_em = np.array([large.getlength(character) for character in alphabet]) / _LARGE_PX
    heights = np.array(large.getmetrics()) / _LARGE_PX
    sizes = np.array(sizes_px)
    pixels: list[np.ndarray] = []
    boxes = np.zeros((len(sizes), PHASES, len(alphabet), 4), dtype=np.int64)
    for row, size in enumerate(sizes_px):
        font = _font(path, size * SUPERSAMPLING)
        for glyph, character in enumerate(alphabet):
            for phase, (left, top, ink) in enumerate(_phases(font, character)):
                boxes[row, phase, glyph] = left, top, ink.shape[1], ink.shape[0]
                pixels.append(ink.ravel())
    # drawn in the order size, glyph, phase
    counts = np.array([len(part) for part in pixels]).reshape(len(sizes), len(alphabet), PHASES)
    offsets = (counts.cumsum() - counts.ravel()).reshape(counts.shape).transpose(0, 2, 1)
    return Sheet(
        np.concatenate(pixels),
        offsets.astype(np.int64),
        boxes,
        np.outer(sizes, of_em).astype(np.float32),
        *(np.floor(sizes * height + 0.5).astype(np.int64) for height in heights),
    )


def _phases(font: ImageFont.FreeTypeFont, character: str) -> list[tuple[int, int, np.ndarray]]:
    """(left, top, ink [h, w]) of a glyph at each phase, from a font of SUPERSAMPLING times the size."""
    left, top, right, bottom = map(math.floor, font.getbbox(character, anchor="ls"))
    left, top, right, bottom = left - 2, top - 2, right + 2, bottom + 2
    large = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(large).text((-left, -top), character, fill=255, font=font, anchor="ls")
    inked = large.getbbox()
    if inked is None:
        return [(0, 0, np.zeros((0, 0), dtype=np.uint8))] * PHASES
    found = []
    for phase in range(PHASES):
        shift = phase * SUPERSAMPLING // PHASES
        x, y = math.floor((left + inked[0] + shift) / SUPERSAMPLING), math.floor((top + inked[1]) / SUPERSAMPLING)
        width = math.ceil((left + inked[2] + shift) / SUPERSAMPLING) - x
        height = math.ceil((top + inked[3]) / SUPERSAMPLING) - y
        corner = (x * SUPERSAMPLING - shift - left, y * SUPERSAMPLING - top)
        part = large.crop((*corner, corner[0] + width * SUPERSAMPLING, corner[1] + height * SUPERSAMPLING))
        found.append((x, y, np.asarray(part.reduce(SUPERSAMPLING))))
    return found


def _font(path: Path, size_px: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(path), size_px, layout_engine=ImageFont.Layout.BASIC)


def _covers(font: ImageFont.FreeTypeFont, alphabet: str) -> bool:
    missing = bytes(font.getmask("\U0010fffe"))
    return all(bytes(font.getmask(character)) != missing for character in alphabet if character != " ")
