"""Windows of composed pages and exact labels of their cells, all on the device, without a loop over characters."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from gpu_pretrain_parts.atlas import PHASES, SPACE, Atlas
from gpu_pretrain_parts.layout import LAYERS, LINK, TEXT, Layout, Lines, draw_layout
from gpu_pretrain_parts.resampling import shown_at
from gpu_pretrain_parts.text import Dice, TextBank
from tilewright.train.nano import CELLS, PATCH_PX
from tilewright.train.nano_characters import BLANK
from tilewright.train.nano_data import CELL_PX, IGNORED, WindowBatch

_CHARACTERS_A_LINE = 144


@dataclass(frozen=True)
class Placed:
    """M characters with ink or a share of a word, in reading order, all [M]: their ``windows``, numbers in the atlas
    (``faces``, ``sizes``, ``glyphs``), origins ``x_px`` and ``baselines_px``, ``advances_px``, ``layers``; glyphs
    ``before`` and ``after`` them in their word, SPACE at its ends."""

    windows: Tensor
    faces: Tensor
    sizes: Tensor
    glyphs: Tensor
    x_px: Tensor
    baselines_px: Tensor
    advances_px: Tensor
    layers: Tensor
    before: Tensor
    after: Tensor

    def centres_px(self, atlas: Atlas) -> tuple[Tensor, Tensor]:
        """(x, y) of the characters' boxes, which are as high as ascent and descent together."""
        ascent, descent = atlas.ascents[self.faces, self.sizes], atlas.descents[self.faces, self.sizes]
        return self.x_px + self.advances_px / 2, self.baselines_px - ascent + (ascent + descent) / 2


def compose(
    dice: Dice,
    atlas: Atlas,
    bank: TextBank,
    windows: int,
    *,
    rows: int,
    columns: int,
    compressions: tuple[float, ...],
) -> WindowBatch:
    """``windows`` of ``rows`` x ``columns`` patches; each compression has an even share of them, in order."""
    height, width = rows * PATCH_PX, columns * PATCH_PX
    layout = draw_layout(dice, atlas, windows, height, width)
    text = bank.lines(dice, len(layout.lines.windows), _CHARACTERS_A_LINE)
    placed = place(dice, atlas, layout.lines, text, width)
    pictures = paint(layout, placed, coverage(placed, atlas, windows, height, width))
    parts = torch.tensor_split(pictures, len(compressions))
    pixels = torch.cat([shown_at(part, how) for part, how in zip(parts, compressions, strict=True)])
    return WindowBatch(pixels, *label(placed, atlas, windows, rows, columns))


def place(dice: Dice, atlas: Atlas, lines: Lines, text: Tensor, width: int) -> Placed:
    """Set ``text`` [N, C] in ``lines``: whole words up to the right side, a few of them bold, italic or links."""
    space = text == SPACE
    word = space.cumsum(1).clamp(max=text.shape[1] - 1)
    of_word = partial(torch.gather, dim=1, index=word)
    drawn = of_word(dice.choice(tuple(text.shape), (90, 5, 4, 1)))
    style = torch.where(drawn == 0, lines.styles[:, None], drawn)
    face = atlas.styles[lines.families[:, None], style]
    size = lines.sizes[:, None].expand_as(text)
    advance = atlas.advances[face, size, text] * torch.where(space, lines.stretch[:, None], 1.0)
    advance = advance + lines.spacing_px[:, None]
    x = lines.left_px[:, None] + advance.cumsum(1) - advance
    end = torch.where(space, x, torch.inf).flip(1).cummin(1).values.flip(1)  # of a character's word
    near = (x < width + 8) & (x + advance > -8)
    kept = ~space & (end <= lines.right_px[:, None]) & near
    linked = of_word(dice.chance(tuple(text.shape), 0.06)) & (lines.layers == TEXT)[:, None]
    edge = torch.full_like(text[:, :1], SPACE)
    line = kept.nonzero()[:, 0]
    return Placed(
        windows=lines.windows[line],
        faces=face[kept],
        sizes=size[kept],
        glyphs=text[kept],
        x_px=x[kept],
        baselines_px=lines.baselines_px[line],
        advances_px=advance[kept],
        layers=torch.where(linked, LINK, lines.layers[:, None])[kept],
        before=torch.cat([edge, text[:, :-1]], dim=1)[kept],
        after=torch.cat([text[:, 1:], edge], dim=1)[kept],
    )


def coverage(placed: Placed, atlas: Atlas, windows: int, height: int, width: int) -> Tensor:
    """float32 [windows, LAYERS, height, width]: the inked share of each pixel. Every pixel of every glyph is one row
    of a scatter; integers are added up, so the order in which a device does so changes nothing."""
    quarter = torch.floor(placed.x_px * PHASES + 0.5).long()
    glyph = (placed.faces, placed.sizes, quarter % PHASES, placed.glyphs)
    left, top, wide, high = atlas.boxes[glyph].unbind(-1)
    left, top = left + quarter // PHASES, top + placed.baselines_px
    counts = wide * high
    owner = torch.repeat_interleave(counts)
    inside = torch.arange(len(owner), device=counts.device) - (counts.cumsum(0) - counts)[owner]
    row, column = top[owner] + inside // wide[owner], left[owner] + inside % wide[owner]
    picture = placed.windows[owner] * LAYERS + placed.layers[owner]
    pixel = (picture * height + row) * width + column
    outside = windows * LAYERS * height * width  # a pixel more, for what is cut off
    pixel = torch.where((row >= 0) & (row < height) & (column >= 0) & (column < width), pixel, outside)
    ink = atlas.ink[atlas.offsets[glyph][owner] + inside].int()
    canvas = torch.zeros(outside + 1, dtype=torch.int32, device=ink.device).scatter_add_(0, pixel, ink)
    return canvas[:-1].clamp_(max=255).view(windows, LAYERS, height, width).float() / 255


def label(placed: Placed, atlas: Atlas, windows: int, rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(characters, before, after, starts), int64 [windows, rows, columns, CELLS], as ``nano_data.label_cells``."""
    x, y = placed.centres_px(atlas)
    row, column = torch.floor(y / PATCH_PX).long(), torch.floor(x / CELL_PX).long()
    across = columns * CELLS
    outside = windows * rows * across
    cell = (placed.windows * rows + row) * across + column
    cell = torch.where((row >= 0) & (row < rows) & (column >= 0) & (column < across), cell, outside)
    count = len(cell)
    order = torch.arange(count, device=cell.device)
    first = torch.full((outside + 1,), count, device=cell.device).scatter_reduce_(0, cell, order, "amin")[:-1]

    def of_cells(values: Tensor, where_blank: int) -> Tensor:
        return torch.cat([values, values.new_tensor([where_blank])])[first].view(windows, rows, columns, CELLS)

    classes = atlas.classes
    return (
        of_cells(classes[placed.glyphs], BLANK),
        of_cells(classes[placed.before], IGNORED),
        of_cells(classes[placed.after], IGNORED),
        of_cells((placed.before == SPACE).long(), IGNORED),
    )


def paint(layout: Layout, placed: Placed, inked: Tensor) -> Tensor:
    """float32 [W, 3, height, width] from 0 to 255, rounded: paper, panels, bands, rules, then the ink."""
    windows, _, height, width = inked.shape
    colours = layout.palette
    picture = colours.paper[:, :, None, None].expand(-1, -1, height, width)
    under = ((layout.panels, colours.panel), (layout.bands, colours.band), (layout.rules, colours.rule))
    for rectangles, colour in under:
        picture = torch.where(filled(rectangles, windows, height, width)[:, None], colour[:, :, None, None], picture)
    inked = inked ** colours.gamma[:, None, None, None]
    inked[:, LINK] = inked[:, LINK].maximum(filled(_underlines(layout, placed), windows, height, width).float())
    for layer, colour in enumerate((colours.text, colours.link, colours.band_text)):
        picture = torch.lerp(picture, colour[:, :, None, None], inked[:, layer : layer + 1])
    return picture.clamp(0, 255).round()


def _underlines(layout: Layout, placed: Placed) -> Tensor:
    chosen = (placed.layers == LINK) & layout.underlined[placed.windows]
    x, below = placed.x_px[chosen], placed.baselines_px[chosen] + 2
    right = (x + placed.advances_px[chosen]).round().long()
    return torch.stack([placed.windows[chosen], x.round().long(), below, right, below + 1], dim=1)


def filled(rectangles: Tensor, windows: int, height: int, width: int) -> Tensor:
    """bool [windows, height, width]: which pixels lie in one of ``rectangles`` (window, left, top, right, bottom)."""
    window, left, top, right, bottom = rectangles.unbind(1)
    left, right = left.clamp(0, width), right.clamp(0, width)
    top, bottom = top.clamp(0, height), bottom.clamp(0, height)
    steps = torch.zeros(windows, height + 1, width + 1, dtype=torch.int32, device=rectangles.device)
    for row, column, sign in ((top, left, 1), (top, right, -1), (bottom, left, -1), (bottom, right, 1)):
        steps.index_put_((window, row, column), torch.full_like(window, sign, dtype=torch.int32), accumulate=True)
    depth = steps.cumsum(1, dtype=torch.int32).cumsum(2, dtype=torch.int32)
    return depth[:, :height, :width] > 0
