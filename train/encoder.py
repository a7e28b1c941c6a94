"""The encoder: the only way a query or a tile becomes a vector. Prompt, pixels, pooling, scale are its contract's."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from tilewright.configs.errors import InputError
from tilewright.train import families
from tilewright.train.batch import Batch, Batcher
from tilewright.train.contract import EncoderContract, encoder_hash
from tilewright.train.pixels import MAX_PIXELS, MIN_PIXELS, policy_tokens, synthetic_image, visual_tokens

__all__ = ["MAX_PIXELS", "MIN_PIXELS", "Batch", "Encoder", "load_encoder", "save_encoder", "visual_tokens"]

PROBE_TEXTS = ("Which mountain is the highest in the Alps?", "Year of birth of the composer, in digits: 1685?")
PROBE_SIZES = ((96, 64), (203, 151))  # width, height in px


class BrokenVectorsError(InputError):
    """An encoder whose vectors aren't finite."""


class Encoder:
    """Queries and tiles -> unit vectors in float32. Made by ``load_encoder``.

    ``model`` may be trained or wrapped by PEFT in place; ``hash`` then has no value until ``save_encoder`` has run.
    ``files`` is the folder with full weights, tokenizer and image processor, ``files_digest`` that of its weights.
    """

    def __init__(
        self, contract: EncoderContract, batcher: Batcher, model: nn.Module, *, weights_digest: str, files: Path
    ) -> None:
        self.contract, self.batcher, self.model = contract, batcher, model
        self.family = families.by_name(contract.adapter)
        self.files, self.files_digest = files, weights_digest
        self.mark_unchanged(weights_digest)

    @property
    def dimension(self) -> int:
        """D, the length of a vector."""
        return self.contract.dimension

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def mark_unchanged(self, weights_digest: str) -> None:
        """Take ``weights_digest`` as the digest of the model's present weights."""
        self.weights_digest = weights_digest
        self._state = _weights_state(self.model)

    @property
    def hash(self) -> str:
        """Identity of the vector space: contract and weights. Raises InputError if weights changed since loading."""
        if _weights_state(self.model) != self._state:
            raise InputError(
                "the encoder's weights have changed since it was loaded: save_encoder first, then its hash"
            )
        return encoder_hash(self.contract, self.weights_digest)

    def query_batch(self, texts: Sequence[str], images: Sequence[Image.Image | None] | None = None) -> Batch:
        """Model inputs of queries; no device work, the result pickles."""
        return self.batcher.queries(texts, images)

    def tile_batch(self, images: Sequence[Image.Image]) -> Batch:
        """Model inputs of tiles; no device work, the result pickles."""
        return self.batcher.tiles(images)

    def document_batch(self, texts: Sequence[str]) -> Batch:
        """Model inputs of texts that stand where tiles do, for a text warm-up; no device work, the result pickles."""
        return self.batcher.documents(texts)

    def tokens(self, width_px: int, height_px: int) -> int:
        """Visual tokens of an image of this size under the contract."""
        return policy_tokens(width_px, height_px, self.contract.pixels)

    def forward(self, batch: Batch) -> Tensor:
        """[B, D] float32, unit length, in the order of the batch; with gradient if it is enabled."""
        batch = batch.to(self.device)
        pooled = self.family.pooled(self.model, batch, self.contract.pixels)
        return F.normalize(pooled.float()[:, : self.dimension], dim=-1)

    def encode_queries(
        self, texts: Sequence[str], images: Sequence[Image.Image | None] | None = None, *, batch_size: int = 32
    ) -> Tensor:
        """texts, optionally each with a picture (or None) -> [Q, D] on the CPU, in the order given."""
        images = [None] * len(texts) if images is None else list(images)
        order = sorted(range(len(texts)), key=lambda i: (images[i] is not None, len(texts[i]), i))
        batches = (
            (rows, self.query_batch([texts[i] for i in rows], [images[i] for i in rows]))
            for rows in (order[start : start + batch_size] for start in range(0, len(order), batch_size))
        )
        return self._encode(len(texts), batches)

    def encode_tiles(self, images: Sequence[Image.Image], *, batch_tokens: int = 4096) -> Tensor:
        """images -> [P, D] on the CPU, in the order given; ``batch_tokens`` bounds the visual tokens of a batch."""
        sizes = [self.tokens(*image.size) for image in images]
        batches = ((rows, self.tile_batch([images[i] for i in rows])) for rows in token_batches(sizes, batch_tokens))
        return self._encode(len(images), batches)

    def _encode(self, count: int, batches: Iterator[tuple[Sequence[int], Batch]]) -> Tensor:
        vectors = torch.zeros(count, self.dimension)
        with evaluating(self.model):
            for rows, batch in batches:
                vectors[list(rows)] = self.forward(batch).cpu()
        check_finite(vectors)
        return vectors


def check_finite(vectors: Tensor) -> None:
    """Raise BrokenVectorsError if any of the vectors [N, D] holds NaN or infinity."""
    broken = (~torch.isfinite(vectors).all(1)).nonzero().flatten()
    if len(broken):
        raise BrokenVectorsError(
            f"the encoder gave NaN or infinity (first: input {int(broken[0])} of {len(vectors)}): its weights are"
            " broken"
        )


def token_batches(tokens: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices grouped by size (ascending, then by index) so that a batch holds at most ``batch_tokens``, or one."""
    batches: list[list[int]] = []
    total = 0
    for i in sorted(range(len(tokens)), key=lambda i: (tokens[i], i)):
        if not batches or total + tokens[i] > batch_tokens:
            batches.append([])
            total = 0
        batches[-1].append(i)
        total += tokens[i]
    return batches


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the mode is put back afterwards."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def probe_vectors(encoder: Encoder) -> Tensor:
    """[4, D]: vectors of two fixed texts and two synthetic images, stored with a checkpoint and compared at loading."""
    images = [synthetic_image(width, height, seed) for seed, (width, height) in enumerate(PROBE_SIZES)]
    return torch.cat([encoder.encode_queries(PROBE_TEXTS), encoder.encode_tiles(images)])


def _weights_state(model: nn.Module) -> tuple[tuple[str, int, int], ...]:
    """What changes when a weight is written, added or replaced: names, identities, torch's write counters."""
    weights = model.state_dict(keep_vars=True)
    return tuple((name, id(weight), weight._version) for name, weight in weights.items())


def load_encoder(
    folder: Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    min_pixels: int | None = None,
    max_pixels: int | None = None,
    dimension: int | None = None,
    base_folder: Path | None = None,
) -> Encoder:
    """An encoder from a ``save_pretrained`` folder or from a checkpoint that ``save_encoder`` wrote.

    Pixel limits and ``dimension`` (Matryoshka: cut, then normalise) may be set for a base folder only; a checkpoint has
    its own. ``base_folder`` replaces the recorded place of an adapter's base. Raises InputError if weights, tokenizer,
    image processor or probe vectors don't match.
    """
    from tilewright.train.encoder_io import load

    options = {"min_pixels": min_pixels, "max_pixels": max_pixels, "dimension": dimension}
    return load(Path(folder), torch.device(device), dtype, options, base_folder)


def save_encoder(encoder: Encoder, folder: Path) -> str:
    """Write a checkpoint that ``load_encoder`` reads: contract, probe vectors, and the weights; return its hash.

    A model wrapped by PEFT is saved as its adapter alone (``adapter/``), with the relative path and the digest of its
    base; any other in full with tokenizer and image processor files. ``folder`` is created; files in it are replaced.
    """
    from tilewright.train.encoder_io import save

    return save(encoder, Path(folder))
