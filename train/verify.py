"""Whether an encoder gives the vectors it should: its checkpoint's probes, or similarities published for the model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.train.encoder import MAX_PIXELS, MIN_PIXELS, PROBE_SIZES, PROBE_TEXTS, Encoder, evaluating, load_encoder
from tilewright.train.encoder_io import ENCODER_FILE, load, probe_cosines, wanted_cosine

PUBLISHED_FILE = "published_similarities.json"


@dataclass(frozen=True)
class Check:
    """One value: what it is of, what was found, what was wanted, and whether that is near enough."""

    of: str
    found: float
    wanted: str
    good: bool


def verify_probes(
    checkpoint: Path, base_folder: Path | None = None, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> tuple[Encoder, list[Check]]:
    """Re-encode the probes that ``checkpoint`` holds: the encoder, and a Check of each cosine.

    Raises InputError if weights, tokenizer, image processor or contract don't belong together.
    """
    if not (checkpoint / ENCODER_FILE).is_file():
        raise InputError(f"{checkpoint}: no {ENCODER_FILE}: wanted a checkpoint, which holds probe vectors")
    options = dict.fromkeys(("min_pixels", "max_pixels", "dimension"))  # the checkpoint's own
    encoder = load(checkpoint, torch.device(device), dtype, options, base_folder, check_probes=False)
    names = [*(f"text {text!r}" for text in PROBE_TEXTS), *(f"image of {w} x {h} px" for w, h in PROBE_SIZES)]
    cosines = probe_cosines(checkpoint, encoder)
    wanted = wanted_cosine(encoder)
    return encoder, [
        Check(f"cosine, {name}", cosine, f">= {wanted}", cosine >= wanted)
        for name, cosine in zip(names, cosines, strict=True)
    ]


@dataclass(frozen=True)
class Published:
    """Similarities published for a model: of ``queries`` (rows) to a text, an image, and both (``columns``).

    All inputs stand under one ``instruction``. ``sources`` disagree among themselves; values are those of the first,
    ``tolerance`` by column is ours: above the spread between the first two, which ran in like precision.
    """

    model: str
    instruction: str
    queries: tuple[str, ...]
    document: str
    image: str
    columns: tuple[str, ...]
    sources: tuple[dict[str, Any], ...]
    tolerance: dict[str, float]

    @property
    def similarities(self) -> list[list[float]]:
        """The values compared with, rows as ``queries``, columns as ``columns``."""
        values: list[list[float]] = self.sources[0]["similarities"]
        return values


def published() -> Published:
    """What is published for Qwen3-VL-Embedding-2B, from this package's ``published_similarities.json``."""
    text = resources.files("tilewright.train").joinpath(PUBLISHED_FILE).read_text(encoding="utf-8")
    data = json.loads(text)
    values: Any = {name: data[name] for name in Published.__dataclass_fields__}
    for name in ("queries", "columns", "sources"):
        values[name] = tuple(values[name])
    return Published(**values)


def load_as_published(folder: Path, base_folder: Path | None, device: str, dtype: torch.dtype) -> Encoder:
    """``load_encoder``; a base model's folder with the pixel limits that the published script sets."""
    is_base = not (folder / ENCODER_FILE).is_file()
    limits = {"min_pixels": MIN_PIXELS, "max_pixels": MAX_PIXELS} if is_base else {}
    return load_encoder(folder, device=device, dtype=dtype, base_folder=base_folder, **limits)


def verify_published(encoder: Encoder, expected: Published, image: Image.Image | None = None) -> list[Check]:
    """A Check of each published similarity; those of the image only if it is given.

    Raises InputError if the encoder's instruction for tiles isn't the published one.
    """
    if encoder.contract.tile_instruction != expected.instruction:
        raise InputError(
            f"the published values stand under the instruction {expected.instruction!r}, the encoder's is"
            f" {encoder.contract.tile_instruction!r}"
        )
    queries = _vectors(encoder, expected.queries, [None] * len(expected.queries))
    documents: list[tuple[str, Image.Image | None]] = [(expected.document, None)]
    if image is not None:
        documents += [("", image), (expected.document, image)]
    texts, images = zip(*documents, strict=True)
    found = queries @ _vectors(encoder, texts, images).T
    checks = []
    for column, name in enumerate(expected.columns[: len(documents)]):
        near = expected.tolerance[name]
        for row, query in enumerate(expected.queries):
            value, wanted = float(found[row, column]), expected.similarities[row][column]
            good = abs(value - wanted) <= near
            checks.append(Check(f"{name} / {query!r}", value, f"{wanted:.4f} ± {near}", good))
    return checks


def _vectors(encoder: Encoder, texts: Sequence[str], images: Sequence[Image.Image | None]) -> Tensor:
    with evaluating(encoder.model):
        return torch.cat(
            [
                encoder.forward(encoder.batcher.documents([text], [image])).cpu()
                for text, image in zip(texts, images, strict=True)
            ]
        )
