"""Batches: any rows of one are the batch of those rows alone, and cutting it up stays cheap."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tilewright.configs.errors import InputError
from tilewright.train.batch import Batch, Batcher
from tilewright.train.encoder import load_encoder
from tilewright.train.pixels import synthetic_image

torch.set_num_threads(1)
SIZES = ((64, 64), (300, 220), (90, 400), (33, 47))
IMAGES = [synthetic_image(width, height, seed) for seed, (width, height) in enumerate(SIZES)]
TEXTS = ("a", "In which year was the physicist Anders Ångström born?", "height of the Matterhorn", "word " * 30)


@pytest.fixture(scope="module")
def batcher(reader_parts: Any) -> Batcher:
    return load_encoder(Path(reader_parts.model).parent / "embedder").batcher


def _same(found: Batch, wanted: Batch) -> None:
    for name in ("input_ids", "attention_mask", "position_ids", "pooled", "patches", "grids"):
        one, other = getattr(found, name), getattr(wanted, name)
        assert (one is None) == (other is None), name
        assert one is None or torch.equal(one, other), name
    assert found.image_rows == wanted.image_rows
    assert found.left_padded == wanted.left_padded


items = st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, 3)), min_size=1, max_size=7)


@settings(deadline=None, max_examples=60)
@given(items=items, data=st.data())
def test_rows_are_the_batch_of_those_rows(batcher: Batcher, items: list[tuple[int, int | None]], data: Any) -> None:
    texts = [TEXTS[text] for text, _ in items]
    images: list[Image.Image | None] = [None if image is None else IMAGES[image] for _, image in items]
    batch = batcher.queries(texts, images)
    start = data.draw(st.integers(0, len(items) - 1))
    stop = data.draw(st.integers(start + 1, len(items)))
    rows = batch.rows(start, stop)
    _same(rows, batcher.queries(texts[start:stop], images[start:stop]))
    inner = data.draw(st.integers(0, stop - start - 1))
    _same(rows.rows(inner, stop - start), batcher.queries(texts[start + inner : stop], images[start + inner : stop]))


def test_rows_of_a_left_padded_batch_keep_their_width(batcher: Batcher) -> None:
    batch = batcher.queries(TEXTS, [None, IMAGES[1], None, IMAGES[2]], padding="left")
    rows = batch.rows(0, 2)
    assert rows.input_ids.shape[1] == batch.input_ids.shape[1]
    assert rows.image_rows == (1,)
    assert torch.equal(rows.patches, batcher.tiles([IMAGES[1]]).patches)  # type: ignore[arg-type]
    assert rows.input_ids[0, rows.pooled[0]] == batcher.contract.last_token_id


class _Calls(TorchDispatchMode):
    """Counts what torch is asked for by name."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_all_grids_are_gone_through_once(batcher: Batcher) -> None:
    batch = batcher.tiles(IMAGES * 8)
    with _Calls() as calls:
        chunks = [batch.rows(start, start + 1) for start in range(len(batch))]
    assert calls.names.count("prod") == 1
    assert sum(len(chunk.patches) for chunk in chunks if chunk.patches is not None) == len(batch.patches)  # type: ignore[arg-type]


def test_patches_of_rows_are_no_copy(batcher: Batcher) -> None:
    batch = batcher.tiles(IMAGES)
    patches: Tensor | None = batch.rows(1, 3).patches
    assert patches is not None and batch.patches is not None
    assert patches.untyped_storage().data_ptr() == batch.patches.untyped_storage().data_ptr()


def test_documents(batcher: Batcher) -> None:
    _same(batcher.documents(["", ""], IMAGES[:2]), batcher.tiles(IMAGES[:2]))
    _same(batcher.documents([" a\n"]), batcher.documents(["a"]))
    with pytest.raises(InputError, match="text 1 of the batch is empty"):
        batcher.documents(["a", " "])
    with pytest.raises(InputError, match="2 texts and 1 pictures"):
        batcher.documents(["a", "b"], IMAGES[:1])
    with pytest.raises(InputError, match="an empty batch"):
        batcher.documents([])
