"""What decides how a query or a tile becomes a vector; hashed, stored with every checkpoint, index and report."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.errors import InputError
from tilewright.train.pixels import PixelPolicy

SCHEMA = 1


@dataclass(frozen=True)
class EncoderContract:
    """Everything but the weights in use. ``base_digest`` is of the base model's tensors, ``base_model`` only its label.

    ``last_token_id`` is the token that is pooled, read from the tokenizer when the base was loaded; -1 if none is.
    ``max_text_tokens``: a longer user text is cut there.
    """

    adapter: str
    base_model: str
    base_digest: str
    prompt: str
    query_instruction: str
    tile_instruction: str
    tokenizer: str
    last_token_id: int
    last_token: str
    max_text_tokens: int
    pixels: PixelPolicy
    pooling: str
    normalisation: str
    dimension: int

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON, without the label; 64 hex characters."""
        values = dataclasses.asdict(self)
        del values["base_model"]
        values["pixels"] = self.pixels.hashed()
        return digest_text(canonical_json({"schema": SCHEMA, "contract": values}))


def encoder_hash(contract: EncoderContract, weights_digest: str) -> str:
    """Identity of a vector space: contract and weights. Equal hashes mean comparable vectors."""
    return digest_text(canonical_json({"contract": contract.hash, "weights": weights_digest}))


def contract_differences(stored: EncoderContract, found: EncoderContract) -> str:
    """The fields in which two contracts differ, as `name: stored A, found B; ...`."""
    pairs = zip(_flat(stored).items(), _flat(found).items(), strict=True)
    return "; ".join(f"{name}: stored {old!r}, found {new!r}" for (name, old), (_, new) in pairs if old != new)


def _flat(contract: EncoderContract) -> dict[str, Any]:
    values = dataclasses.asdict(contract)
    pixels = values.pop("pixels")
    return values | {f"pixels.{name}": value for name, value in pixels.items()}


def check_same_space(query_hash: str, index_hash: str, where: str) -> None:
    """Raise InputError unless a query encoder and the vectors at ``where`` belong to one space."""
    if query_hash != index_hash:
        raise InputError(
            f"{where} was built by encoder {index_hash[:16]}, the queries come from encoder {query_hash[:16]}:"
            " vectors of two encoders can't be compared. Embed the tiles again with this checkpoint"
        )
