"""Nano under the encoder contract: exact vectors of pages that are read for sure, and what every encoder does."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from tilewright.configs.errors import InputError
from tilewright.train import families, nano_family
from tilewright.train.batch import Batch
from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.nano import CELLS, VISION, NanoConfig, NanoModel
from tilewright.train.nano_characters import BLANK, CLASSES, class_of, trigrams_of
from tilewright.train.nano_folder import write_nano
from tilewright.train.nano_rows import PICTURE, QUERY, SPECIALS, TEXT, TILE
from tilewright.train.pixels import PixelPolicy, synthetic_image

torch.set_num_threads(1)
SAID = "The quick brown fox, 42 of them, jumps over the lazy dog's tail: the end"
SURE = 20.0
IMAGES = [synthetic_image(300, 220), synthetic_image(90, 400, 1), synthetic_image(64, 64, 2)]
TEXTS = ["Who?", "In which year was the physicist Anders Ångström born?", "height of the Matterhorn, in metres"]
BLACK = Image.new("RGB", (64, 64))
WHITE = Image.new("RGB", (64, 64), "white")


def pixel_of(code: int) -> tuple[int, int]:
    """(row, column) in a patch, off its edge, which is repeated where a page is padded."""
    return 1 + code // 8, 1 + code % 8


def reader_of(text: str, pixels: PixelPolicy) -> NanoModel:
    """A nano that reads ``text``: a patch whose red pixel number j is lit holds its characters 4j to 4j + 3.

    Hidden value j is that pixel, 1 or 0; attention, MLPs and positions add nothing; heads name what each cell holds.
    """
    model = NanoModel(NanoConfig(VISION | {"depth": 1}, dimension=512)).eval()
    classes = [class_of(ord(character)) for character in text]
    classes = [BLANK, *classes, *[BLANK] * (-len(classes) % CELLS + 1)]
    visual: Any = model.visual
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        codes = (len(classes) - 2) // CELLS
        for code in range(codes):
            visual.patch_embed.proj.weight[code, 0, 0, *pixel_of(code)] = pixels.std[0]
            visual.patch_embed.proj.bias[code] = pixels.mean[0]
        heads = (
            (model.character_head, [(cell * CLASSES, 0) for cell in range(CELLS)]),
            (model.context_head, [(cell * 2 * CLASSES, -1) for cell in range(CELLS)]),
            (model.context_head, [((cell * 2 + 1) * CLASSES, 1) for cell in range(CELLS)]),
        )
        for head, places in heads:
            for code in range(codes):
                for cell, (start, offset) in enumerate(places):
                    row = start + classes[1 + code * CELLS + cell + offset]
                    head.weight[row, code] += 2 * SURE
        model.character_head.bias.view(CELLS, CLASSES)[:, BLANK] += SURE  # what an unlit patch is
    return model


def page_of(text: str, rows: int, columns: int, seed: int = 0) -> Image.Image:
    """Black, with the patches of ``text`` at places drawn from ``seed``."""
    pixels = np.zeros((rows * 16, columns * 16, 3), np.uint8)
    codes = -(-len(text) // CELLS)
    places = np.random.default_rng(seed).permutation(rows * columns)[:codes]
    for code, place in enumerate(places.tolist()):
        row, column = divmod(place, columns)
        down, right = pixel_of(code)
        pixels[row * 16 + down, column * 16 + right] = 255
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def reading(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tmp_path_factory.mktemp("reading") / "base"
    write_nano(reader_of(SAID, encoder.contract.pixels), folder, name="a reader of one text")
    return load_encoder(folder)


@pytest.fixture(scope="module")
def encoder(nano_folder: Path) -> Encoder:
    return load_encoder(nano_folder)


def close(found: Tensor, wanted: Tensor) -> bool:
    return bool((F.cosine_similarity(found, wanted, dim=-1) >= 0.99999).all())


def bound(encoder: Encoder, text: str, *, as_query: bool = False) -> Tensor:
    """The unit vector of a text by the binding alone."""
    trigrams = torch.from_numpy(trigrams_of(text))
    binding: Any = encoder.model.binding
    of = binding.of_queries if as_query else binding.of_texts
    return F.normalize(of(trigrams, torch.zeros_like(trigrams), 1), dim=-1)[0]


def documents(encoder: Encoder, texts: list[str], images: list[Image.Image | None] | None = None) -> Tensor:
    with torch.no_grad():
        return encoder.forward(encoder.batcher.documents(texts, images))


@settings(deadline=None, max_examples=15)
@given(rows=st.integers(4, 44), columns=st.integers(5, 70), seed=st.integers(0, 1000))
def test_a_page_that_is_read_has_the_vector_of_its_text(reading: Encoder, rows: int, columns: int, seed: int) -> None:
    """Any size, in one window or several: patches come back from merge order, each counts once."""
    vector = reading.encode_tiles([page_of(SAID, rows, columns, seed)])[0]
    torch.testing.assert_close(vector, bound(reading, SAID), atol=1e-4, rtol=0)


def test_a_text_in_the_place_of_a_tile_has_the_tile_s_vector(reading: Encoder) -> None:
    assert close(documents(reading, [SAID]), reading.encode_tiles([page_of(SAID, 8, 8)]))


def test_a_query_finds_its_page(reading: Encoder) -> None:
    query = reading.encode_queries(["quick jumping dog", "something else"])
    tile = reading.encode_tiles([page_of(SAID, 8, 8)])[0]
    assert close(query[0], bound(reading, "quick jumping dog", as_query=True))
    assert query[0] @ tile > 0.35 > 0.2 > query[1] @ tile


def test_queries_are_weighted_texts_are_damped(encoder: Encoder) -> None:
    """Weights are random here, so both differ; words in any case and order are the same."""
    text = "the cat and the hat"
    assert close(encoder.encode_queries([text])[0], bound(encoder, text, as_query=True))
    assert close(documents(encoder, [text])[0], bound(encoder, text))
    assert not close(encoder.encode_queries([text]), documents(encoder, [text]))
    assert close(encoder.encode_queries(["Hat! CAT, the the and"]), encoder.encode_queries([text]))


def test_a_query_with_a_picture_is_the_sum_of_both(encoder: Encoder) -> None:
    text, picture = encoder.encode_queries(TEXTS[:1]), encoder.encode_tiles(IMAGES[:1])
    assert close(encoder.encode_queries(TEXTS[:1], IMAGES[:1]), F.normalize(text + picture))
    for silent in ("", "?!"):
        assert close(encoder.encode_queries([silent], IMAGES[:1]), picture)
    document = documents(encoder, [TEXTS[0]])
    assert close(documents(encoder, [TEXTS[0]], [IMAGES[0]]), F.normalize(document + picture))


def test_a_tile_without_letters(reading: Encoder) -> None:
    """It has the vector of three boundaries, which is near to no text."""
    vectors = reading.encode_tiles([BLACK, Image.new("RGB", (300, 200)), page_of(SAID, 8, 8)])
    signs = reading.model.get_buffer("binding.signs").float()
    assert close(vectors[:2], F.normalize(signs[0, 0] * signs[1, 0] * signs[2, 0], dim=0).expand(2, -1))
    assert abs(float(vectors[0] @ vectors[2])) < 0.25
    batch = reading.tile_batch([BLACK, page_of(SAID, 8, 8)])
    reading.forward(batch).pow(3).sum().backward()
    gradients = [p.grad for p in reading.model.parameters() if p.grad is not None]
    assert len(gradients) > 10 and all(bool(torch.isfinite(gradient).all()) for gradient in gradients)
    reading.model.zero_grad(set_to_none=True)
    reading.forward(reading.tile_batch([BLACK])).sum().backward()
    assert not any(p.grad.any() for p in reading.model.parameters() if p.grad is not None)
    reading.model.zero_grad(set_to_none=True)


def test_vectors_are_float32_of_unit_length(encoder: Encoder) -> None:
    for vectors in (encoder.encode_queries(TEXTS), encoder.encode_tiles(IMAGES), documents(encoder, TEXTS)):
        assert vectors.dtype == torch.float32 and vectors.shape == (3, 256)
        torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3))


def test_alone_in_a_batch_in_any_order_and_on_either_side(encoder: Encoder) -> None:
    order = [2, 0, 1]
    queries, tiles = encoder.encode_queries(TEXTS), encoder.encode_tiles(IMAGES)
    assert close(torch.cat([encoder.encode_queries([text]) for text in TEXTS]), queries)
    assert close(encoder.encode_queries([TEXTS[i] for i in order]), queries[order])
    assert close(torch.cat([encoder.encode_tiles([image]) for image in IMAGES]), tiles)
    assert close(encoder.encode_tiles([IMAGES[i] for i in order]), tiles[order])
    assert close(encoder.encode_tiles(IMAGES, batch_tokens=1), tiles)
    pictures = [IMAGES[0], None, IMAGES[1]]
    mixed = encoder.encode_queries(TEXTS, pictures)
    kinds: tuple[Callable[[Any], Batch], ...] = (
        lambda side: encoder.batcher.queries(TEXTS, pictures, padding=side),
        lambda side: encoder.batcher.queries(TEXTS, padding=side),
        lambda side: encoder.batcher.tiles(IMAGES, padding=side),
    )
    for make, wanted in zip(kinds, (mixed, queries, tiles), strict=True):
        for side in ("left", "right"):
            with torch.no_grad():
                assert close(encoder.forward(make(side)), wanted)
    batch = encoder.batcher.queries(TEXTS, pictures)
    with torch.no_grad():
        assert close(torch.cat([encoder.forward(batch.rows(row, row + 1)) for row in range(3)]), mixed)


def test_rows(encoder: Encoder) -> None:
    batch = pickle.loads(pickle.dumps(encoder.batcher)).queries(["ab c", "a"], [None, WHITE])
    trigrams = [SPECIALS + number for number in trigrams_of("ab c a").tolist()]
    assert batch.input_ids[0].tolist() == [QUERY, *trigrams[:3], 0, 0]
    assert batch.input_ids[1].tolist() == [QUERY, *[PICTURE] * 4, trigrams[3]]
    assert batch.attention_mask.sum(1).tolist() == [4, 6] and batch.pooled.tolist() == [3, 5]
    assert encoder.tile_batch([WHITE]).input_ids.tolist() == [[TILE, *[PICTURE] * 4]]
    assert encoder.document_batch(["a"]).input_ids.tolist() == [[TEXT, trigrams[3]]]
    assert encoder.tile_batch(IMAGES).grids.tolist() == [[1, 14, 20], [1, 26, 6], [1, 4, 4]]  # type: ignore[union-attr]
    assert [encoder.tokens(*image.size) for image in IMAGES] == [70, 39, 4]


def test_a_long_text_is_cut(encoder: Encoder) -> None:
    limit = encoder.contract.max_text_tokens
    long = "ab" * limit
    assert encoder.query_batch([long]).input_ids.shape == (1, 1 + limit)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text(encoder: Encoder, text: str) -> None:
    with pytest.raises(InputError, match="text 1 of the batch is empty: wanted a text or a picture"):
        encoder.query_batch(["a", text])
    with pytest.raises(InputError, match="empty"):
        encoder.document_batch([text])


def test_a_text_without_letters(encoder: Encoder) -> None:
    with pytest.raises(InputError, match=r"text 0 of the batch, '\?!', has no letter and no digit"):
        encoder.encode_queries(["?!"])
    with pytest.raises(InputError, match="has no letter and no digit"):
        encoder.document_batch(["--"])


def test_fewer_dimensions_are_the_first_ones(encoder: Encoder, nano_folder: Path) -> None:
    short = load_encoder(nano_folder, dimension=100)
    assert close(short.encode_queries(TEXTS), F.normalize(encoder.encode_queries(TEXTS)[:, :100], dim=-1))
    for dimension in (63, 257):
        with pytest.raises(InputError, match=f"dimension: wanted 64 to 256, found {dimension}"):
            load_encoder(nano_folder, dimension=dimension)


def test_the_contract(encoder: Encoder, nano_folder: Path) -> None:
    contract = encoder.contract
    assert (contract.adapter, contract.prompt, contract.dimension) == ("nano", "nano/1", 256)
    assert contract.base_model == "random nano"
    assert contract.pooling == "damped bag of trigrams read with neighbours in a word" and contract.last_token_id == -1
    assert (contract.pixels.fit, contract.pixels.enlarge, contract.pixels.min_pixels) == ("pad", 1.0, 1024)
    assert families.of_folder(nano_folder) is families.by_name("nano")
    assert load_encoder(nano_folder, max_pixels=10**6).contract.pixels.max_pixels == 10**6
    with pytest.raises(InputError, match="min_pixels: wanted 1024 with fit 'pad', found 4096"):
        load_encoder(nano_folder, min_pixels=4096)


def test_half_precision_is_near(encoder: Encoder, nano_folder: Path) -> None:
    half = load_encoder(nano_folder, dtype=torch.bfloat16)
    found = half.encode_tiles(IMAGES)
    assert found.dtype == torch.float32
    assert F.cosine_similarity(found, encoder.encode_tiles(IMAGES)).min() > 0.99
    assert F.cosine_similarity(half.encode_queries(TEXTS), encoder.encode_queries(TEXTS)).min() > 0.9999


def test_the_note_is_plain() -> None:
    assert "lexical reader" in nano_family.NOTE and "no\nsubstitute" in nano_family.NOTE
