"""What the families of Qwen's vision-language models share: prompt, tokenizer, image processor, the pooled position."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from tilewright.configs.errors import InputError
from tilewright.train.base_folder import MAX_TEXT_TOKENS, Loaded, Options, checked_dimension, model_label
from tilewright.train.batch import Batch, Batcher, PromptRows
from tilewright.train.contract import EncoderContract
from tilewright.train.model_sizes import ModelSizes
from tilewright.train.pixels import PixelPolicy, check_policy, load_image_processor, load_policy
from tilewright.train.prompts import PROMPT, QUERY_INSTRUCTION, TILE_INSTRUCTION, finish_instruction
from tilewright.train.tokenizer import IMAGE_PAD, PromptTokenizer
from tilewright.train.weights import weights_digest


@dataclass(frozen=True)
class QwenFamily:
    """A ``Family`` of three functions.

    ``sizes(folder)``: of the folder's model, InputError for an unreadable configuration. ``load_model(folder, dtype)``:
    the model whose last hidden state is pooled, InputError unless the weights match one to one.
    ``hidden_states(model, batch, policy)``: last hidden states [B, L, D], after the final norm.
    """

    NAME: str
    MODEL_TYPE: str
    ARCHITECTURES: tuple[str, ...]
    sizes: Callable[[Path], ModelSizes]
    load_model: Callable[[Path, torch.dtype], nn.Module]
    hidden_states: Callable[[nn.Module, Batch, PixelPolicy], Tensor]
    NOTE: str = ""
    LOADER: str = "AutoModel"
    SHARDED: bool = True

    def load(self, folder: Path, dtype: torch.dtype, options: Options) -> Loaded:
        """See ``Family``: model, tokenizer and image processor, checked to belong together."""
        sizes = self.sizes(folder)
        policy = load_policy(folder, options["min_pixels"], options["max_pixels"])
        tokenizer = PromptTokenizer.from_folder(folder)
        _check_parts(folder, sizes, policy, tokenizer)
        check_policy(load_image_processor(folder, policy.min_pixels, policy.max_pixels), policy)
        last = tokenizer.last_token_id()
        contract = EncoderContract(
            adapter=self.NAME,
            base_model=model_label(folder, self.NAME),
            base_digest=weights_digest(folder),
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
            dimension=checked_dimension(folder, options, sizes.hidden),
        )
        return Loaded(contract, Batcher(contract, PromptRows(tokenizer)), self.load_model(folder, dtype))

    def pooled(self, model: nn.Module, batch: Batch, policy: PixelPolicy) -> Tensor:
        """See ``Family``: the last attended position."""
        hidden = self.hidden_states(model, batch, policy)
        return hidden[torch.arange(len(batch), device=hidden.device), batch.pooled]


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
