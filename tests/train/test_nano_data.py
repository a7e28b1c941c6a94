"""Labels of windows by hand and by a second formula; windows as a function of seed and step."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.characters import Characters
from tilewright.train.nano import CELLS, MEAN, PATCH_PX, STD
from tilewright.train.nano_characters import BLANK, OTHER, class_of
from tilewright.train.nano_data import (
    CELL_PX,
    IGNORED,
    TILES_AT_ONCE,
    Labels,
    WindowSettings,
    WindowStream,
    enlarged,
    label_cells,
    padded,
    patches_of,
    shown_at,
)
from tilewright.train.pixels import PixelPolicy, normalised_frames, patchify, synthetic_image

SETTINGS = WindowSettings(batch_windows=8, rows=4, columns=6, compressions=(1.0, 4.0), seed=3)


def characters(text: str, left_px: float = 2.0, top_px: float = 8.0, step_px: float = 4.0) -> Characters:
    """One line of text, a character every ``step_px``; blanks part words."""
    shown = [(number, char) for number, char in enumerate(text) if char != " "]
    begins = np.array([number == 0 or text[number - 1] == " " for number, _ in shown], dtype=bool)
    return Characters(
        codes=np.array([ord(char) for _, char in shown], dtype=np.uint32),
        centres_px=np.array([(left_px + step_px * number, top_px) for number, _ in shown], dtype=np.float32).reshape(
            -1, 2
        ),
        heights_px=np.full(len(shown), 12, dtype=np.float32),
        starts=begins,
        firsts=begins,
    )


def row_of(labels: Labels, name: str, row: int = 0) -> list[int]:
    return [int(value) for value in getattr(labels, name)[row].reshape(-1)]


def test_a_line_in_its_cells() -> None:
    labels = label_cells(characters("ab c"), 0, 0, rows=2, columns=2)
    a, b, c = (class_of(ord(char)) for char in "abc")
    none = [BLANK] * 4
    assert row_of(labels, "characters") == [a, b, BLANK, c, *none]
    assert row_of(labels, "before") == [BLANK, a, IGNORED, BLANK] + [IGNORED] * 4
    assert row_of(labels, "after") == [b, BLANK, IGNORED, BLANK] + [IGNORED] * 4
    assert row_of(labels, "starts") == [1, 0, IGNORED, 1] + [IGNORED] * 4
    assert row_of(labels, "characters", 1) == [BLANK] * 8


def test_the_corner_moves_cells_and_cuts_what_lies_outside() -> None:
    labels = label_cells(characters("abcdef"), left_px=8, top_px=-16, rows=2, columns=1)
    assert row_of(labels, "characters") == [BLANK] * 4
    assert row_of(labels, "characters", 1) == [class_of(ord(char)) for char in "cdef"]
    assert row_of(labels, "before", 1)[0] == class_of(ord("b")), "what stands outside is still its neighbour"


def test_of_two_in_a_cell_the_first_is_kept() -> None:
    labels = label_cells(characters("il", left_px=0.5, step_px=3.0), 0, 0, rows=1, columns=1)
    assert row_of(labels, "characters") == [class_of(ord("i")), BLANK, BLANK, BLANK]
    assert row_of(labels, "after")[0] == class_of(ord("l"))


def test_accents_signs_and_foreign_letters() -> None:
    labels = label_cells(characters("é–Ж"), 0, 0, rows=1, columns=1)
    assert row_of(labels, "characters") == [class_of(ord("e")), class_of(ord("-")), OTHER, BLANK]


def test_no_characters() -> None:
    labels = label_cells(characters(""), 0, 0, rows=1, columns=2)
    assert (labels.characters == BLANK).all() and (labels.starts == IGNORED).all()


def test_patches_are_those_of_the_pixel_policy() -> None:
    """The same as the encoder's way: patchify, normalise, and back from merge order."""
    image = synthetic_image(96, 64, 5)
    policy = PixelPolicy(1024, 10**6, mean=(MEAN,) * 3, std=(STD,) * 3)
    patches, grids = patchify([image], policy)
    rows, columns = grids[0, 1:].tolist()
    frames = normalised_frames(patches, policy).view(rows // 2, columns // 2, 2, 2, 3, 2, PATCH_PX, PATCH_PX)
    raster = frames.transpose(1, 2).reshape(rows, columns, 3, 2, PATCH_PX, PATCH_PX)
    ours = patches_of(torch.from_numpy(np.asarray(image).copy())[None])
    assert ours.shape == (1, rows, columns, 3, 2, PATCH_PX, PATCH_PX) and ours.stride(4) == 0
    torch.testing.assert_close(ours[0], raster, rtol=0, atol=1e-6)


def test_pictures_keep_their_size_within_rounding() -> None:
    image = synthetic_image(875, 301)
    assert shown_at(image, 1.0).shape == (301, 875, 3)
    height, width, _ = shown_at(image, 4.0).shape
    assert abs(height - 301) <= 2 and abs(width - 875) <= 2
    assert enlarged(image, 1.0) is image and enlarged(image, 2.0).size == (1750, 602)


def test_padding_repeats_the_edge() -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    assert padded(pixels, 2, 2) is pixels
    large = padded(pixels, 3, 4)
    assert large.shape == (3, 4, 3) and (large[:2, :2] == pixels).all()
    assert (large[2] == large[1]).all() and (large[:, 3] == large[:, 1]).all()


class FewTiles:
    """As much of a TileStore and a CharacterTable as a stream asks for."""

    def __init__(self, count: int) -> None:
        self.tile_ids = [f"{number:016x}-0000-00" for number in range(count)]
        self.folder = Path("few")

    def __len__(self) -> int:
        return len(self.tile_ids)

    def image(self, tile_id: str) -> Image.Image:
        return synthetic_image(150, 120, self.tile_ids.index(tile_id))

    def at(self, position: int) -> Characters:
        return characters("the quick brown fox jumps over", top_px=20.0 + position % 80)


@pytest.fixture
def tiles() -> Any:
    return FewTiles(2 * TILES_AT_ONCE)


def stream_of(tiles: Any, rank: int = 0, world: int = 1, settings: WindowSettings = SETTINGS) -> WindowStream:
    return WindowStream(tiles, tiles, settings, rank, world)


def test_a_step_is_a_function_of_seed_and_step(tiles: Any) -> None:
    stream = stream_of(tiles)
    whole = list(stream.batches(0, 40))
    assert len(whole) == 40 and stream.steps_per_group == 32
    late = list(stream_of(tiles).batches(30, 40))
    for one, other in zip(whole[30:], late, strict=True):
        assert torch.equal(one.pixels, other.pixels) and torch.equal(one.characters, other.characters)
    others = next(stream_of(tiles, settings=dataclasses.replace(SETTINGS, seed=4)).batches(0, 1))
    assert not torch.equal(whole[0].pixels, others.pixels)
    stream.close()


def test_an_epoch_shows_every_tile_once_on_some_rank(tiles: Any) -> None:
    ranks = [stream_of(tiles, rank, 2) for rank in range(2)]
    seen = [position for stream in ranks for position in stream._tiles(0)]
    assert sorted(seen) == list(range(len(tiles)))
    assert ranks[0]._tiles(1) != ranks[0]._tiles(0), "another epoch has another order"


def test_windows_show_what_their_labels_say(tiles: Any) -> None:
    """A character's cell lies where the line does: compared by the offset between two windows of one tile."""
    for batch in stream_of(tiles).group(0)[:6]:
        count, rows, columns = batch.characters.shape[:3]
        assert batch.pixels.shape == (count, rows * PATCH_PX, columns * PATCH_PX, 3) and count == 8
        filled = batch.characters != BLANK
        assert ((batch.starts != IGNORED) == filled).all() and ((batch.before != IGNORED) == filled).all()
        assert filled.flatten(1).sum(1).max() <= columns * CELLS, "one line of characters"


def test_small_stores_give_small_groups() -> None:
    stream = stream_of(FewTiles(5), 1, 2)
    assert stream.steps_per_group == 4 and len(stream.group(0)) == 4
    assert len(next(stream.batches(7, 8)).pixels) == 4


def test_too_few_tiles_are_refused() -> None:
    with pytest.raises(InputError, match="wanted at least 2 tiles, found 1"):
        stream_of(FewTiles(1), 0, 2)
    with pytest.raises(InputError, match="wanted at least 3 tiles, found 2"):
        stream_of(FewTiles(2), settings=dataclasses.replace(SETTINGS, batch_windows=24))


def test_cells_divide_a_patch() -> None:
    assert CELL_PX * CELLS == PATCH_PX
