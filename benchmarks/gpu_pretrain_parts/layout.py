"""Where lines of text stand in windows by chance, and what lies under them: columns, tables, rules, boxes, colours."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_pretrain_parts.atlas import Atlas
from gpu_pretrain_parts.text import Dice

TEXT, LINK, BAND = range(3)
LAYERS = 3
"""Colours of ink: of text, of links, of text on a strong band."""
_COLUMNS = (50, 22, 15, 13)  # weights of 1, 2, ...
_MOST_COLUMNS = len(_COLUMNS)
_ASCENT, _DESCENT = 0.91, 0.23  # of a line, in em, for what lies around it
_SMALLEST_PITCH = 1.15


@dataclass(frozen=True)
class Lines:
    """N lines in reading order, all [N]: their ``windows``; ``left_px``, ``right_px``: words that end beyond it are
    left out; ``baselines_px`` int64; numbers of ``families``, ``sizes`` and ``styles`` in the atlas; ``spacing_px``
    after each letter, ``stretch`` of blanks; ``layers``: LAYERS."""

    windows: Tensor
    left_px: Tensor
    right_px: Tensor
    baselines_px: Tensor
    families: Tensor
    sizes: Tensor
    styles: Tensor
    spacing_px: Tensor
    stretch: Tensor
    layers: Tensor


@dataclass(frozen=True)
class Palette:
    """Colours [W, 3] from 0 to 255; ``gamma`` [W]: what the share of an inked pixel is raised to."""

    paper: Tensor
    panel: Tensor
    band: Tensor
    rule: Tensor
    text: Tensor
    link: Tensor
    band_text: Tensor
    gamma: Tensor


@dataclass(frozen=True)
class Layout:
    """``lines``, and rectangles int64 [R, 5] (window, left, top, right, bottom): ``panels`` of a colour near the
    paper's, strong ``bands``, ``rules``. ``underlined`` bool [W]: whether links are."""

    lines: Lines
    panels: Tensor
    bands: Tensor
    rules: Tensor
    palette: Palette
    underlined: Tensor


@dataclass(frozen=True)
class _Grid:
    """``edges`` float [W, K + 1] of columns; by column [W, K]: ``inhabited``, ``sizes``, ``pitch`` px; ``baselines``
    int64 [W, K, L]. ``table`` [W]: columns share their lines."""

    table: Tensor
    edges: Tensor
    inhabited: Tensor
    sizes: Tensor
    pitch: Tensor
    baselines: Tensor

    def boxes(self, chosen: Tensor, above: Tensor, below: Tensor) -> Tensor:
        """Rectangles as wide as their column for the ``chosen`` lines [W, K, L], from ``above`` to ``below`` px."""
        window, column, _ = chosen.nonzero().T
        sides = (self.edges[window, column], above[chosen], self.edges[window, column + 1], below[chosen])
        return torch.stack([window, *(side.round().long() for side in sides)], dim=1)


def draw_layout(dice: Dice, atlas: Atlas, windows: int, height: int, width: int) -> Layout:
    """A layout for each of ``windows`` of ``height`` x ``width`` px."""
    grid = _grid(dice, atlas, windows, height, width)
    size = atlas.sizes_px[grid.sizes][..., None]
    leading = (grid.pitch[..., None] - (_ASCENT + _DESCENT) * size) / 2
    top = grid.baselines - _ASCENT * size - leading
    bottom = top + grid.pitch[..., None]
    row = grid.inhabited[..., None] & (top < height) & (bottom > 0)
    banded = row & _by_row(dice, grid, 0.08) & dice.chance((windows, 1, 1), 0.25)
    zebra = row & dice.chance((windows, 1, 1), 0.35) & grid.table[:, None, None]
    zebra &= torch.arange(row.shape[2], device=dice.device) % 2 == 0
    bordered = dice.chance((windows, 1, 1), 0.6) & grid.table[:, None, None]
    ruled = row & (bordered | _by_row(dice, grid, 0.03))
    panels = torch.cat([grid.boxes(zebra, top, bottom), _whole_columns(dice, grid, height)])
    rules = torch.cat([grid.boxes(ruled, bottom, bottom + 1), _uprights(dice, grid, bordered[:, 0, 0], height)])
    return Layout(
        lines=_lines(dice, atlas, grid, row, banded),
        panels=panels,
        bands=grid.boxes(banded, top, bottom),
        rules=rules,
        palette=_palette(dice, windows),
        underlined=dice.chance((windows,), 0.4),
    )


def _grid(dice: Dice, atlas: Atlas, windows: int, height: int, width: int) -> _Grid:
    count = dice.choice((windows,), _COLUMNS) + 1
    table = dice.chance((windows,), 0.6) & (count > 1)
    inhabited = torch.arange(_MOST_COLUMNS, device=dice.device) < count[:, None]
    shares = dice.uniform((windows, _MOST_COLUMNS), 0.5, 1.5) * inhabited
    left = dice.uniform((windows, 1), -80, 40)
    right = dice.uniform((windows, 1), 0.8 * width, 1.4 * width)
    inner = left + (shares / shares.sum(1, keepdim=True)).cumsum(1) * (right - left)
    weights = 1 / (1 + ((atlas.sizes_px - 15) / 4) ** 2)  # body text of most pages has 13 to 18 px
    columns = (windows, _MOST_COLUMNS)
    sizes = _shared(dice.choice(columns, weights.tolist()), table)
    room = torch.where(table[:, None], dice.uniform(columns, 1.3, 2.3), dice.uniform(columns, _SMALLEST_PITCH, 1.75))
    pitch = _shared(atlas.sizes_px[sizes] * room, table)
    first = _shared(pitch * dice.uniform(columns, -0.2, 0.9), table)
    lines = int(height / (_SMALLEST_PITCH * float(atlas.sizes_px.min()))) + 2
    baselines = first[..., None] + pitch[..., None] * torch.arange(lines, device=dice.device)
    return _Grid(table, torch.cat([left, inner], dim=1), inhabited, sizes, pitch, baselines.round().long())


def _shared(values: Tensor, table: Tensor) -> Tensor:
    """``values`` [W, K, ...]; in tables all columns have the first one's."""
    chosen = table.view(-1, *[1] * (values.dim() - 1))
    return torch.where(chosen, values[:, :1], values)


def _by_row(dice: Dice, grid: _Grid, share: float) -> Tensor:
    """bool [W, K, L], in tables alike in all columns."""
    return _shared(dice.chance(tuple(grid.baselines.shape), share), grid.table)


def _whole_columns(dice: Dice, grid: _Grid, height: int) -> Tensor:
    """Boxes behind columns, as of an infobox: now and then, over a part of the window's height."""
    shape = tuple(grid.inhabited.shape)
    chosen = grid.inhabited & dice.chance(shape, 0.15)
    top, bottom = dice.uniform(shape, -height, 0.5 * height), dice.uniform(shape, 0.5 * height, 2.0 * height)
    return grid.boxes(chosen[..., None], top[..., None], bottom[..., None])


def _uprights(dice: Dice, grid: _Grid, bordered: Tensor, height: int) -> Tensor:
    """Rules between columns from top to bottom."""
    chosen = grid.inhabited & (bordered & dice.chance((len(bordered),), 0.7))[:, None]
    window, column = chosen.nonzero().T
    edge = grid.edges[window, column + 1].round().long()
    return torch.stack([window, edge, torch.zeros_like(edge), edge + 1, torch.full_like(edge, height)], dim=1)


def _lines(dice: Dice, atlas: Atlas, grid: _Grid, row: Tensor, banded: Tensor) -> Lines:
    shown = row & ~dice.chance(tuple(row.shape), 0.08)
    window, column, _ = shown.nonzero().T
    count = (len(window),)
    columns = (len(row), _MOST_COLUMNS)
    gap = dice.uniform(columns, 2, 14)[window, column]
    indent = dice.uniform(count, 0, 60) * dice.chance(count, 0.12)
    families = _shared(dice.below(columns, len(atlas.styles)), grid.table | dice.chance((len(row),), 0.7))
    smaller = dice.below(count, 4) * dice.chance(count, 0.1)
    spaced = dice.choice((len(row),), (92, 2, 2, 2, 2))[window]
    spacing = torch.tensor((0.0, -0.2, 0.3, 0.6, 1.0), device=dice.device)[spaced]
    linked = torch.where(dice.chance(count, 0.06), LINK, TEXT)
    justified = 1 + dice.uniform(count, 0, 0.9) * dice.chance((len(row),), 0.25)[window]
    return Lines(
        windows=window,
        left_px=grid.edges[window, column] + gap + indent,
        right_px=grid.edges[window, column + 1] - gap / 2,
        baselines_px=grid.baselines[shown],
        families=families[window, column],
        sizes=(grid.sizes[window, column] - smaller).clamp(min=0),
        styles=dice.choice(count, (82, 11, 5, 2)),
        spacing_px=spacing,
        stretch=justified,
        layers=torch.where(banded[shown], BAND, linked),
    )


def _palette(dice: Dice, windows: int) -> Palette:
    """Mostly dark on white, else on a light tint; a tenth light on dark."""
    one, three = (windows, 1), (windows, 3)
    dark = dice.chance(one, 0.1)
    tint = 255 - dice.uniform(three, 0, 30) * dice.chance(one, 0.3)
    paper = torch.where(dark, dice.uniform(three, 0, 55), tint)
    text = dice.uniform(one, 0, 85) * dice.chance(one, 0.7) + dice.uniform(three, 0, 30) * dice.chance(one, 0.3)
    blue = torch.stack([dice.uniform((windows,), low, high) for low, high in ((0, 70), (20, 110), (130, 250))], dim=1)
    link = torch.where(dice.chance(one, 0.8), blue, dice.uniform(three, 0, 150))
    apart = dice.uniform(one, 4, 30) + dice.uniform(three, 0, 14)
    strong = dice.chance(one, 0.5)
    band = torch.where(strong, dice.uniform(three, 0, 140), dice.uniform(three, 175, 250))
    band_text = torch.where(strong, dice.uniform(one, 225, 256), dice.uniform(one, 0, 60)).clamp(max=255).expand(-1, 3)
    text = torch.where(dark, 255 - text, text)
    return Palette(
        paper=paper,
        panel=torch.where(dark, paper + apart, paper - apart),
        band=band,
        rule=torch.lerp(paper, text, dice.uniform(one, 0.12, 0.7)),
        text=text,
        link=torch.where(dark, 255 - 0.6 * link, link),
        band_text=band_text,
        gamma=dice.uniform((windows,), 0.75, 1.1),
    )
