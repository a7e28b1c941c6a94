"""Nano as a model family: what is read on a tile, and the trigrams of a query, bound to vectors of one space.

A tile on which nothing is read has the vector of three word boundaries in a row, which no text contains. A query or
text with a picture is the sum of both parts, each of unit length; a text without letters adds nothing to its picture.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tilewright.configs.errors import InputError
from tilewright.train.base_folder import MAX_TEXT_TOKENS, Loaded, Options, checked_dimension, model_label
from tilewright.train.batch import Batch, Batcher
from tilewright.train.contract import EncoderContract
from tilewright.train.nano_rows import QUERY, SPECIALS, TrigramRows, fingerprint
from tilewright.train.own_pixels import load_own_policy
from tilewright.train.pixels import PixelPolicy, normalised_frames
from tilewright.train.pretrained import load_pretrained, read_config
from tilewright.train.weights import weights_digest

NAME = "nano"
MODEL_TYPE = "tilewright_nano"
ARCHITECTURES: tuple[str, ...] = ("NanoModel",)
NOTE = """\
**A lexical reader**, for tests, demonstrations and small corpora on a CPU: it reads the letters of a page and compares
letters, three at a time. It knows no meaning, no synonym and no picture, reads Latin letters and digits only, and is no
substitute for Qwen3-VL-Embedding."""
LOADER = "tilewright.train.nano.NanoModel"
SHARDED = False
PROMPT = "nano/1"  # raised when the rows of ``nano_rows`` change
QUERY_INSTRUCTION = "The letters of a query."
TILE_INSTRUCTION = "The letters of a tile."
SHORTEST = 64  # dimensions: with fewer, the few trigrams of a short query may cancel out


def load(folder: Path, dtype: torch.dtype, options: Options) -> Loaded:
    """See ``Family``."""
    from tilewright.train.nano import NanoConfig, NanoModel

    config = read_config(NanoConfig, folder)
    policy = load_own_policy(folder, options)
    _check_pixels(folder, config.vision_config, policy)
    contract = EncoderContract(
        adapter=NAME,
        base_model=model_label(folder, NAME),
        base_digest=weights_digest(folder),
        prompt=PROMPT,
        query_instruction=QUERY_INSTRUCTION,
        tile_instruction=TILE_INSTRUCTION,
        tokenizer=fingerprint(),
        last_token_id=-1,
        last_token="",
        max_text_tokens=MAX_TEXT_TOKENS,
        pixels=policy,
        pooling="damped bag of trigrams read with neighbours in a word" + _windows(folder, config),
        normalisation="l2",
        dimension=checked_dimension(folder, options, config.dimension, SHORTEST),
    )
    model: Any = load_pretrained(NanoModel, config, folder, dtype)
    model.start_head.requires_grad_(False)  # no vector depends on it, so weight decay alone would move it
    return Loaded(contract, Batcher(contract, TrigramRows()), model)


def pooled(model: nn.Module, batch: Batch, policy: PixelPolicy) -> Tensor:
    """[B, D] float32, see ``Family``: texts by their trigrams, pictures by what is read on them."""
    binding: Any = model.binding
    attended = batch.attention_mask.bool()
    is_query = (attended & (batch.input_ids == QUERY)).any(1)
    found = attended & (batch.input_ids >= SPECIALS)
    owners, trigrams = found.nonzero()[:, 0], batch.input_ids[found] - SPECIALS
    asked = is_query[owners]
    texts = binding.of_queries(trigrams[asked], owners[asked], len(batch))
    texts = texts + binding.of_texts(trigrams[~asked], owners[~asked], len(batch))
    vectors = F.normalize(texts, dim=-1)  # zero stays zero
    if batch.patches is None:
        return vectors
    read = model(list(_pages(batch, policy, next(model.parameters()).dtype))).float()
    read = torch.where((read == 0).all(1, keepdim=True), _blank(binding), read)
    rows = torch.tensor(batch.image_rows, device=read.device)
    return vectors.index_add(0, rows, F.normalize(read, dim=-1))


def _pages(batch: Batch, policy: PixelPolicy, dtype: torch.dtype) -> Iterator[Tensor]:
    """[rows, columns, 3, frames, p, p] of each picture, a view that repeats one frame; patches leave merge order."""
    assert batch.patches is not None and batch.grids is not None
    m, grids = policy.merge_size, batch.grids.tolist()
    parts = torch.split(batch.patches, [rows * columns for _, rows, columns in grids])
    for part, (_, rows, columns) in zip(parts, grids, strict=True):
        raster = part.view(rows // m, columns // m, m, m, -1).transpose(1, 2).reshape(rows * columns, -1)
        frames = normalised_frames(raster, policy, dtype)
        yield frames.view(rows, columns, *frames.shape[1:])


def _blank(binding: Any) -> Tensor:
    """float32 [D]: the trigram of three boundaries."""
    return binding.signs[:, 0].float().prod(0)  # type: ignore[no-any-return]


def _windows(folder: Path, config: Any) -> str:
    """What a contract says of the windows that pages are cut into: nothing of those that nano was made with.

    Raises InputError for windows that no page can be cut into.
    """
    names = ("window_rows", "window_columns", "window_overlap")
    sizes = tuple(getattr(config, name) for name in names)
    if any(type(size) is not int for size in sizes) or not 0 <= sizes[2] < min(sizes[:2]):
        raise InputError(
            f"{folder}: {', '.join(names)}: wanted whole numbers, the last from 0 to below the others, found {sizes}"
        )
    own = type(config)()
    if sizes == tuple(getattr(own, name) for name in names):
        return ""
    return f", windows of {sizes[0]} x {sizes[1]} patches that share {sizes[2]}"


def _check_pixels(folder: Path, vision: Any, policy: PixelPolicy) -> None:
    """Reading needs letters as they are, in the tower's patches."""
    wanted = (vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size, "pad")
    found = (policy.patch_size, policy.merge_size, policy.temporal_patch_size, policy.fit)
    if found != wanted:
        raise InputError(f"{folder}: patch, merge, frames and fit of its pixels: wanted {wanted}, found {found}")
