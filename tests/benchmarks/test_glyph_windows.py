"""Windows composed from a glyph atlas show what their labels say; the benchmark that learns from them runs."""

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from tilewright.data_gen.characters import Characters
from tilewright.data_gen.reading_words import ReadingWords
from tilewright.train import nano_data
from tilewright.train.nano_characters import BLANK, class_of
from tilewright.train.nano_data import IGNORED, label_cells

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FONTS = Path("/usr/share/fonts")
SIZES = (13, 20)
MONO, SERIF = 0, 1  # families, in the order of their names

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def parts() -> Any:
    """The modules of gpu_pretrain_parts, which aren't in the package."""
    sys.path.insert(0, str(BENCHMARKS))
    from gpu_pretrain_parts import atlas, composition, layout, resampling, text

    sys.path.remove(str(BENCHMARKS))
    return SimpleNamespace(atlas=atlas, composition=composition, layout=layout, resampling=resampling, text=text)


@pytest.fixture(scope="module")
def families(parts: Any) -> Any:
    names = ["Liberation Mono", "Liberation Serif"]
    found = parts.atlas.find_families(FONTS, names, parts.atlas.ASCII)
    assert [family.name for family in found] == names and all(None not in family.files for family in found)
    return found


@pytest.fixture(scope="module")
def atlas(parts: Any, families: Any) -> Any:
    """Two families' regular and bold faces."""
    fewer = [parts.atlas.Family(family.name, (*family.files[:2], None, None)) for family in families]
    return parts.atlas.make_atlas(fewer, SIZES, parts.atlas.ASCII)


def line_of(parts: Any, family: int, size: int, left: float, baseline: int, right: float = 1e4) -> Any:
    """One line in window 0."""
    whole, real = (lambda value: torch.tensor([value])), (lambda value: torch.tensor([float(value)]))
    return parts.layout.Lines(
        windows=whole(0),
        left_px=real(left),
        right_px=real(right),
        baselines_px=whole(baseline),
        families=whole(family),
        sizes=whole(SIZES.index(size)),
        styles=whole(0),
        spacing_px=real(0),
        stretch=real(1),
        layers=whole(0),
    )


def set_line(parts: Any, atlas: Any, text: str, line: Any, width: int = 480) -> Any:
    """``text`` in ``line``, all in its own style: chance is taken out."""
    glyphs = torch.tensor([[parts.atlas.ASCII.index(character) for character in f"{text} "]])
    dice = SimpleNamespace(
        choice=lambda shape, weights: torch.zeros(shape, dtype=torch.long),
        chance=lambda shape, share: torch.zeros(shape, dtype=torch.bool),
    )
    return parts.composition.place(dice, atlas, line, glyphs, width)


@pytest.mark.parametrize(("baseline", "patch"), [(69, 3), (71, 4)])
def test_a_glyph_has_its_ink_and_its_label_in_its_cell(parts: Any, atlas: Any, baseline: int, patch: int) -> None:
    """An H of 20 px, 12 px wide, from x = 100: ink only there, from the height of capitals to the baseline. Its box
    is 17 px above and 6 below the baseline, its centre so at 63.5 or 65.5 px: just above and below a patch's edge."""
    placed = set_line(parts, atlas, "H", line_of(parts, MONO, 20, left=100, baseline=baseline))
    ink = parts.composition.coverage(placed, atlas, 1, 96, 192)[0, 0].numpy()
    rows, columns = np.nonzero(ink)
    assert columns.min() >= 100 and columns.max() < 112 and columns.max() - columns.min() >= 8
    assert rows.max() == baseline - 1 and baseline - rows.min() == pytest.approx(0.66 * 20, abs=1.5)
    characters, before, after, starts = (
        part[0].numpy() for part in parts.composition.label(placed, atlas, 1, rows=6, columns=12)
    )
    ((row, column, cell),) = np.argwhere(characters != BLANK)
    assert (row, column * 4 + cell) == (patch, 106 // 4)
    assert characters[row, column, cell] == class_of(ord("H"))
    assert before[row, column, cell] == after[row, column, cell] == BLANK and starts[row, column, cell] == 1
    assert (before == IGNORED).sum() == before.size - 1 and (starts == IGNORED).sum() == starts.size - 1


def test_a_line_is_pillows_own(parts: Any, atlas: Any, families: Any) -> None:
    """A monospaced line whose letters are 12 px wide, at a quarter of a pixel: Pillow's own line at 8 times the size,
    averaged, up to the rounding of a sum."""
    text, scale = "Tilewright reads {pages} & 'tiles'; jumps.", 8
    placed = set_line(parts, atlas, text, line_of(parts, MONO, 20, left=-7.75, baseline=31), width=320)
    ours = 255 * parts.composition.coverage(placed, atlas, 1, 48, 320)[0, 0].numpy()
    font = ImageFont.truetype(str(families[MONO].files[0]), 20 * scale, layout_engine=ImageFont.Layout.BASIC)
    assert font.getlength("W") == 12 * scale
    drawn = Image.new("L", (320 * scale, 48 * scale))
    ImageDraw.Draw(drawn).text((-7.75 * scale, 31 * scale), text, fill=255, font=font, anchor="ls")
    wanted = np.asarray(drawn.reduce(scale)).astype(float)
    assert wanted.max() > 200
    assert np.abs(ours - wanted).max() <= 2


def test_a_proportional_line_is_pillows_glyphs_where_their_advances_put_them(
    parts: Any, atlas: Any, families: Any
) -> None:
    """Each glyph drawn by Pillow at its own place, an eighth of a pixel at most from where the atlas has it."""
    text, scale, left = "Waffles, jam and 1,204 figs", 8, 5.3
    placed = set_line(parts, atlas, text, line_of(parts, SERIF, 13, left=left, baseline=20), width=320)
    ours = parts.composition.coverage(placed, atlas, 1, 32, 320)[0, 0].numpy()
    path = str(families[SERIF].files[0])
    large = ImageFont.truetype(path, 2048, layout_engine=ImageFont.Layout.BASIC)
    font = ImageFont.truetype(path, 13 * scale, layout_engine=ImageFont.Layout.BASIC)
    drawn = Image.new("L", (320 * scale, 32 * scale))
    for number, character in enumerate(text):
        x = left + sum(large.getlength(letter) for letter in text[:number]) * 13 / 2048
        glyph = Image.new("L", drawn.size)
        ImageDraw.Draw(glyph).text((round(x * scale), 20 * scale), character, fill=255, font=font, anchor="ls")
        drawn.paste(255, mask=glyph)
    wanted = np.asarray(drawn.reduce(scale)) / 255
    assert ours.sum() == pytest.approx(wanted.sum(), rel=0.01)
    assert np.abs(ours - wanted).sum() < 0.12 * wanted.sum()
    moved = np.roll(ours, 1, axis=1)  # what a pixel's error would give
    assert np.abs(moved - wanted).sum() > 0.5 * wanted.sum()


def test_labels_are_those_of_label_cells(parts: Any, atlas: Any) -> None:
    """Of drawn layouts: the second formula is the one that rendered pages are labelled by."""
    dice = parts.text.Dice(torch.device("cpu"), 3)
    words = parts.text.make_tokens(ReadingWords((), ()), 500, parts.atlas.ASCII, 1)
    bank = parts.text.make_bank(words, parts.atlas.ASCII, torch.device("cpu"))
    rows, columns, windows = 10, 20, 16
    layout = parts.layout.draw_layout(dice, atlas, windows, 16 * rows + 40, 16 * columns)
    text = bank.lines(dice, len(layout.lines.windows), 100)
    away = 100.0  # so that no character of a word is left out that begins or ends beyond the sides
    moved = dataclasses.replace(
        layout.lines, left_px=layout.lines.left_px + away, right_px=layout.lines.right_px + away
    )
    placed = parts.composition.place(dice, atlas, moved, text, width=2000)
    placed = dataclasses.replace(placed, x_px=placed.x_px - away)
    found = parts.composition.label(placed, atlas, windows, rows, columns)
    x, y = placed.centres_px(atlas)
    assert x.min() < 0 and x.max() > 16 * columns and y.min() < 0 and y.max() > 16 * rows
    compared = 0
    for window in range(windows):
        here = placed.windows == window
        codes = [ord(parts.atlas.ASCII[glyph]) for glyph in placed.glyphs[here].tolist()]
        firsts = (placed.before[here] == parts.atlas.SPACE).numpy()
        centres = torch.stack([x[here], y[here]], dim=1).numpy()
        stand_in = np.zeros(len(codes), dtype=np.float32)
        wanted = label_cells(Characters(np.array(codes), centres, stand_in, firsts, firsts), 0, 0, rows, columns)
        for ours, name in zip(found, ("characters", "before", "after", "starts"), strict=True):
            assert np.array_equal(ours[window].numpy(), getattr(wanted, name)), name
        compared += int((wanted.characters != BLANK).sum())
    assert compared > 500


def test_of_two_characters_in_a_cell_the_first_is_kept(parts: Any, atlas: Any) -> None:
    line = line_of(parts, SERIF, 13, left=42.3, baseline=30)
    assert float(atlas.advances[atlas.styles[SERIF, 0], SIZES.index(13)].min()) < 4
    placed = set_line(parts, atlas, "il,", line)
    characters = parts.composition.label(placed, atlas, 1, rows=3, columns=10)[0]
    x, _ = placed.centres_px(atlas)
    cells = (x // 4).long().tolist()
    assert len(set(cells)) < 3  # else nothing is tried here
    read = [int(number) for number in characters.flatten() if number != BLANK]
    assert read == [class_of(ord("il,"[cells.index(cell)])) for cell in sorted(set(cells))]


def test_only_whole_words_that_end_before_the_right_side(parts: Any, atlas: Any) -> None:
    """At 12 px a letter `one` and `two` end at 36 and 84 px, `three` at 156."""
    for right, wanted in ((200, "onetwothree"), (155, "onetwo"), (84.1, "onetwo"), (83, "one"), (30, "")):
        placed = set_line(parts, atlas, "one two three", line_of(parts, MONO, 20, 0, 30, right))
        assert "".join(parts.atlas.ASCII[glyph] for glyph in placed.glyphs.tolist()) == wanted


def test_lines_are_tokens_of_the_bank(parts: Any) -> None:
    tokens = ["a", "bc", "12 March", "def,"]
    bank = parts.text.make_bank(tokens, parts.atlas.ASCII, torch.device("cpu"))
    lines = bank.lines(parts.text.Dice(torch.device("cpu"), 0), 50, 60)
    for glyphs in lines.tolist():
        text = "".join(parts.atlas.ASCII[glyph] for glyph in glyphs)
        whole = text[: text.rindex(" ")].replace("12 March", "12March").split(" ")
        assert len(whole) > 5 and set(whole[:-1]) <= {"a", "bc", "12March", "def,"}
    assert len({tuple(line) for line in lines.tolist()}) == 50


def test_compressed_windows_are_pillows(parts: Any) -> None:
    """Half the sides and back by Lanczos and bicubic: nano_data.shown_at's own pixels."""
    noise = np.random.default_rng(0).integers(0, 256, (9, 15, 3), dtype=np.uint8)
    picture = Image.fromarray(noise).resize((240, 144), Image.Resampling.BICUBIC)
    ImageDraw.Draw(picture).text((20, 30), "Sharp letters", fill="black")
    pixels = torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1)[None].float()
    for compression in (1.0, 4.0):
        ours = parts.resampling.shown_at(pixels, compression)[0].numpy().astype(int)
        apart = np.abs(ours - nano_data.shown_at(picture, compression))
        assert apart.max() <= 2 and apart.mean() < 0.02  # four roundings
    assert parts.resampling.shown_at(pixels, 2.0).shape == (1, 144, 240, 3)


def test_rectangles_are_filled_and_cut(parts: Any) -> None:
    rectangles = torch.tensor([[0, 2, 1, 5, 4], [0, 4, 2, 9, 3], [1, -5, 3, 3, 99], [1, 7, 7, 7, 9]])
    wanted = np.zeros((2, 6, 8), dtype=bool)
    wanted[0, 1:4, 2:5] = wanted[0, 2:3, 4:8] = wanted[1, 3:, :3] = True
    assert np.array_equal(parts.composition.filled(rectangles, 2, 6, 8).numpy(), wanted)


def test_windows_follow_from_their_seed(parts: Any, atlas: Any) -> None:
    """The same seed gives the same batch, another one another; characters are seen against what they stand on."""
    device = torch.device("cpu")
    bank = parts.text.make_bank(
        parts.text.make_tokens(ReadingWords((), ()), 300, parts.atlas.ASCII, 1), parts.atlas.ASCII, device
    )
    batches = [
        parts.composition.compose(
            parts.text.Dice(device, seed), atlas, bank, 6, rows=6, columns=14, compressions=(1.0, 2.0, 4.0)
        )
        for seed in (1, 1, 2)
    ]
    assert torch.equal(batches[0].pixels, batches[1].pixels) and torch.equal(batches[0].after, batches[1].after)
    assert not torch.equal(batches[0].pixels, batches[2].pixels)
    pixels, characters = batches[0].pixels, batches[0].characters
    assert pixels.shape == (6, 96, 224, 3) and pixels.dtype == torch.uint8 and characters.shape == (6, 6, 14, 4)
    patches = pixels.view(6, 6, 16, 14, 16, 3).float().amax(-1).permute(0, 1, 3, 2, 4).flatten(3)
    contrast = patches.amax(-1) - patches.amin(-1)
    filled = (characters != BLANK).sum(-1) >= 2
    assert filled.sum() > 50 and (contrast[filled] > 40).float().mean() > 0.95


def test_held_out_words_are_none_of_those_learned_from(parts: Any) -> None:
    words = ReadingWords(tuple(f"w{number}" for number in range(95)), ("Ann", "Bob"))
    learned, held_out = parts.text.split_words(words)
    assert len(held_out.words) == math.ceil(95 / 10) and not set(learned.words) & set(held_out.words)
    assert sorted((*learned.words, *held_out.words)) == sorted(words.words)


@pytest.mark.slow
def test_the_benchmark_runs_on_the_cpu(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "gpu_pretrain_nano.py"), "--device", "cpu", "--quick", "--steps", "3"]
    result = subprocess.run(
        [*command, "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr[-3000:]
    found = json.loads(result.stdout.strip().splitlines()[-1])
    assert "mean nothing" in found["quick"]
    for phase in ("nano-full", "nano"):
        assert found[phase]["steps"] == 3 and set(found[phase]["accuracy"]) == {"@1", "@4"}
        assert (tmp_path / phase / "model.safetensors").is_file()
