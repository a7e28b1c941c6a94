"""A ``save_pretrained`` folder as an encoder: model, tokenizer and image processor, checked to belong together."""

import re
from pathlib import Path

import torch

from tilewright.configs.errors import InputError
from tilewright.train import families
from tilewright.train.batch import Batcher
from tilewright.train.contract import EncoderContract
from tilewright.train.encoder import Encoder
from tilewright.train.model_sizes import ModelSizes
from tilewright.train.pixels import PixelPolicy, check_policy, load_image_processor, load_policy
from tilewright.train.prompts import PROMPT, QUERY_INSTRUCTION, TILE_INSTRUCTION, finish_instruction
from tilewright.train.tokenizer import IMAGE_PAD, PromptTokenizer
from tilewright.train.weights import weights_digest

MAX_TEXT_TOKENS = 4096
_SNAPSHOT = re.compile(r"models--([^/]+)/snapshots/[0-9a-f]+$")
_MODEL_NAME = re.compile(r"^model_name:\s*(\S.*?)\s*$", re.MULTILINE)


def load_base(folder: Path, dtype: torch.dtype, options: dict[str, int | None]) -> Encoder:
    """The encoder of a base folder under ``options``: min_pixels, max_pixels and dimension, None for its own."""
    family = families.of_folder(folder)
    sizes = family.sizes(folder)
    policy = load_policy(folder, options["min_pixels"], options["max_pixels"])
    tokenizer = PromptTokenizer.from_folder(folder)
    _check_parts(folder, sizes, policy, tokenizer)
    check_policy(load_image_processor(folder, policy.min_pixels, policy.max_pixels), policy)
    dimension = sizes.hidden if options["dimension"] is None else options["dimension"]
    if not 1 <= dimension <= sizes.hidden:
        raise InputError(f"{folder}: dimension: wanted 1 to {sizes.hidden}, found {dimension}")
    digest = weights_digest(folder)
    last = tokenizer.last_token_id()
    contract = EncoderContract(
        adapter=family.NAME,
        base_model=_model_name(folder, family.NAME),
        base_digest=digest,
        prompt=PROMPT,
        query_instruction=finish_instruction(QUERY_INSTRUCTION),
        tile_instruction=finish_instruction(TILE_INSTRUCTION),
        tokenizer=tokenizer.fingerprint,
        last_token_id=last,
        last_token=tokenizer.token(last),
        max_text_tokens=MAX_TEXT_TOKENS,
        pixels=policy,
        pooling="last attended position of last_hidden_state",
        normalisation="l2",
        dimension=dimension,
    )
    model = family.load_model(folder, dtype)
    return Encoder(contract, Batcher(contract, tokenizer), model, weights_digest=digest, files=folder)


def _check_parts(folder: Path, sizes: ModelSizes, policy: PixelPolicy, tokenizer: PromptTokenizer) -> None:
    """Model, tokenizer and image processor must belong together."""
    if tokenizer.vocab_size > sizes.vocabulary:
        raise InputError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} tokens, the model's vocabulary {sizes.vocabulary}:"
            " this tokenizer belongs to another model"
        )
    if tokenizer.ids[IMAGE_PAD] != sizes.image_token_id:
        raise InputError(
            f"{folder}: <|image_pad|> is token {tokenizer.ids[IMAGE_PAD]} of the tokenizer, the model's"
            f" image_token_id is {sizes.image_token_id}: this tokenizer belongs to another model"
        )
    for name in ("patch_size", "merge_size", "temporal_patch_size"):
        if getattr(policy, name) != getattr(sizes, name):
            raise InputError(
                f"{folder}: {name}: the image processor says {getattr(policy, name)}, the model {getattr(sizes, name)}"
            )


def _model_name(folder: Path, family: str) -> str:
    """A label: the hub name of a cached snapshot, `model_name` of a model card, else the family."""
    snapshot = _SNAPSHOT.search(folder.absolute().as_posix())
    if snapshot:
        return snapshot.group(1).replace("--", "/")
    card = folder / "README.md"
    if card.is_file():
        front_matter = card.read_text(encoding="utf-8").partition("\n---")[0]
        name = _MODEL_NAME.search(front_matter)
        if name:
            return name.group(1).strip("'\"")
    return family
