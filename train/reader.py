"""The reader: a Qwen3-VL generative model that answers a question from images of tiles, greedily.

The same code loads the real checkpoints, the tiny stand-in and what ``train_reader`` writes. The prompt, the order of
the images, the pixel limits and the batch are those of training (``reader_prompt``, ``reader_batch``).
"""

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image
from safetensors import SafetensorError

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import from_json, to_json
from tilewright.train.adapter_io import save_adapter, with_adapter
from tilewright.train.compress import compress
from tilewright.train.linear_patch import linearise_patch_embedding
from tilewright.train.pixels import MIN_PIXELS, PixelPolicy, check_policy, image_processor_of, load_policy, normalise
from tilewright.train.reader_batch import ReaderInput, build_batch, visual_tokens_of
from tilewright.train.reader_prompt import ReaderPrompt
from tilewright.train.vision_attention import batch_vision_attention
from tilewright.train.weights import weights_digest

CONTRACT = "reader.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "chat_template.jinja")
PROCESSOR_FILES = ("processor_config.json", "video_preprocessor_config.json", "chat_template.json")
_MODEL_NAME = re.compile(r"^model_name:\s*(\S.*?)\s*$", re.MULTILINE)
_CARD = """\
---
model_name: {name}
---
# A reader trained from: {name}

Answers a question from images of page tiles, Lanczos-compressed by one of {compressions}.
Prompt and pixel limits: reader.json.
"""


@dataclass(frozen=True)
class ReaderContract:
    """What a trained reader must be used with: prompt (template, instruction, vocabulary), pixels, compressions.

    ``base_model`` is a label: what the training started from. ``base_weights``: of an adapter, the digest of the
    weights that it was trained on.
    """

    base_model: str
    prompt_sha256: str
    pixels: PixelPolicy
    compressions: tuple[float, ...]
    base_weights: str | None = None


class Answer(NamedTuple):
    """A reader's answer and its cost: ``input_tokens`` counts text and images, ``visual_tokens`` the images' part."""

    text: str
    input_tokens: int
    output_tokens: int
    visual_tokens: int


class Reader:
    """Model, prompt and pixel policy, made by ``load_reader``; ``compressions``: those it was trained at."""

    def __init__(
        self,
        model: Any,
        prompt: ReaderPrompt,
        policy: PixelPolicy,
        *,
        base_model: str,
        compressions: tuple[float, ...] = (),
    ) -> None:
        self.model, self.prompt, self.policy = model, prompt, policy
        self.base_model, self.compressions = base_model, compressions

    @property
    def contract(self) -> ReaderContract:
        """The contract that a checkpoint of this reader stores."""
        return ReaderContract(self.base_model, self.prompt.sha256, self.policy, self.compressions)

    def answer(
        self, query: str, images: Sequence[Image.Image], *, compression: float = 1.0, max_new_tokens: int = 32
    ) -> Answer:
        """Answer one question from ``images`` in their order, each compressed first (1 = as they are)."""
        return self.answer_batch([(query, images)], compression=compression, max_new_tokens=max_new_tokens)[0]

    def answer_batch(
        self,
        questions: Sequence[tuple[str, Sequence[Image.Image]]],
        *,
        compression: float = 1.0,
        max_new_tokens: int = 32,
    ) -> list[Answer]:
        """Answer several questions at once, greedily; each as if alone (left-padded, masked)."""
        rows = [
            ReaderInput(query, tuple(compress(image, compression) for image in images)) for query, images in questions
        ]
        batch = build_batch(rows, self.prompt, self.policy)
        generated = self.generate(batch, max_new_tokens)
        lengths = batch["attention_mask"].sum(dim=1).tolist()
        return [
            Answer(self.prompt.decode(ids), length, len(ids), sum(visual_tokens_of(row.images, self.policy)))
            for row, ids, length in zip(rows, generated, lengths, strict=True)
        ]

    @torch.inference_mode()
    def generate(self, batch: dict[str, Any], max_new_tokens: int) -> list[list[int]]:
        """Greedy ids of each row up to the end of turn (included if it came) or ``max_new_tokens``."""
        from transformers import GenerationConfig

        training = self.model.training
        self.model.eval()
        config = GenerationConfig(
            do_sample=False,
            max_new_tokens=max_new_tokens,
            eos_token_id=[self.prompt.end_id, self.prompt.pad_id],
            pad_token_id=self.prompt.pad_id,
        )
        inputs = self.to_model(batch)
        output = self.model.generate(**inputs, generation_config=config)[:, inputs["input_ids"].shape[1] :]
        self.model.train(training)
        return [self._until_end(ids) for ids in output.tolist()]

    def to_model(self, batch: dict[str, Any]) -> dict[str, Any]:
        """``batch`` on the model's device, uint8 patches normalised to pixel values [N, 3·frames·p·p]."""
        return to_pixel_values(batch, self.policy, self.model.device, self.model.dtype)

    def _until_end(self, ids: list[int]) -> list[int]:
        ends = [i for i, token_id in enumerate(ids) if token_id in (self.prompt.end_id, self.prompt.pad_id)]
        return ids[: ends[0] + 1] if ends else ids


def to_pixel_values(
    batch: dict[str, Any], policy: PixelPolicy, device: torch.device | str, dtype: torch.dtype
) -> dict[str, Any]:
    """``batch`` on ``device`` with ``patches`` replaced by ``pixel_values``."""
    moved = {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in batch.items()}
    if "patches" in moved:
        moved["pixel_values"] = normalise(moved.pop("patches"), policy, dtype)
    return moved


def load_reader(
    folder: Path,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    max_pixels: int | None = None,
    adapter: Path | None = None,
) -> Reader:
    """Load a base ``save_pretrained`` folder, with or without an ``adapter`` of ``train_reader``, or its checkpoint.

    An adapter is merged in float32: the result is its run's checkpoint. A base folder gets ``min_pixels`` pinned to
    4,096 and its own ``max_pixels`` unless given; what was trained keeps what it was trained with. Raises InputError if
    the folder isn't whole: a weight missing, left over or of another shape, another tokenizer or chat template than in
    training, an image processor that doesn't obey, an adapter of another base.
    """
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: no config.json: wanted the folder of a generative Qwen3-VL model")
    prompt = ReaderPrompt(folder)
    stored = _read_contract(adapter or folder)
    if adapter is not None:
        _check_base(stored, adapter, folder)
    base_model = _model_name(folder)
    compressions: tuple[float, ...] = ()
    if stored is None:
        policy = load_policy(folder, MIN_PIXELS, max_pixels)
    else:
        if stored.prompt_sha256 != prompt.sha256:
            raise InputError(
                f"{folder}: trained with prompt {stored.prompt_sha256[:16]}, its tokenizer and chat template give"
                f" {prompt.sha256[:16]}: put back the checkpoint's own tokenizer files"
            )
        if max_pixels not in (None, stored.pixels.max_pixels):
            raise InputError(f"{folder}: trained with max_pixels {stored.pixels.max_pixels}, asked for {max_pixels}")
        policy, compressions, base_model = stored.pixels, stored.compressions, stored.base_model
    check_policy(image_processor_of(policy), policy)
    model = load_weights(folder, dtype)
    if prompt.image_token_id != model.config.image_token_id:
        found = model.config.image_token_id
        raise InputError(f"{folder}: the tokenizer's image token is {prompt.image_token_id}, the model's is {found}")
    if adapter is not None:
        model = merged(with_adapter(model, adapter), dtype)
    return Reader(model.to(device).eval(), prompt, policy, base_model=base_model, compressions=compressions)


def merged(model: Any, dtype: torch.dtype) -> Any:
    """A model whose PEFT adapter is folded into its weights in fp32, which are then rounded once to ``dtype``."""
    return model.float().merge_and_unload().to(dtype)


def _check_base(stored: ReaderContract | None, adapter: Path, folder: Path) -> None:
    found = weights_digest(folder)
    if stored is None or stored.base_weights != found:
        wanted = "no " + CONTRACT if stored is None else f"one of the weights {str(stored.base_weights)[:16]}"
        raise InputError(f"{adapter}: wanted an adapter of {folder} (weights {found[:16]}), found {wanted}")


def load_weights(folder: Path, dtype: torch.dtype) -> Any:
    """The generative model of a folder, patch embedding linear. Raises InputError unless all keys match."""
    from transformers import Qwen3VLForConditionalGeneration

    if not list(folder.glob("*.safetensors")):
        raise InputError(f"{folder}: no .safetensors file: the checkpoint is not whole")
    try:
        with _quiet():
            model, report = Qwen3VLForConditionalGeneration.from_pretrained(
                str(folder), dtype=dtype, output_loading_info=True, local_files_only=True
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{folder}: not a loadable Qwen3-VL reader: {error}") from error
    wrong = {name: sorted(map(str, keys))[:3] for name, keys in report.items() if keys}
    if wrong:
        raise InputError(f"{folder}: wanted every weight to match the model, found {wrong}")
    linearise_patch_embedding(model)
    batch_vision_attention(model)
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' progress bars and reports: what matters in them is checked here."""
    from transformers.utils import logging as transformers_logging

    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def save_reader(reader: Reader, folder: Path, source: Path) -> None:
    """Write a ``save_pretrained`` folder with ``reader.json``; tokenizer and processor files come from ``source``."""
    folder.mkdir(parents=True, exist_ok=True)
    with _quiet():
        reader.model.save_pretrained(str(folder))
    for name in (*TOKENIZER_FILES, *PROCESSOR_FILES):
        if (source / name).is_file():
            (folder / name).write_bytes((source / name).read_bytes())
    image_processor_of(reader.policy).save_pretrained(str(folder))
    compressions = ", ".join(f"{factor:g}" for factor in reader.compressions)
    card = _CARD.format(name=reader.base_model, compressions=compressions)
    (folder / "README.md").write_text(card, encoding="utf-8")
    _write_contract(reader.contract, folder)


def save_reader_adapter(reader: Reader, folder: Path, source: Path) -> None:
    """Write the PEFT adapter of ``reader``, trained on ``source``, with its contract: for ``load_reader(adapter=)``."""
    save_adapter(reader.model, "", folder)
    _write_contract(dataclasses.replace(reader.contract, base_weights=weights_digest(source)), folder)


def _write_contract(contract: ReaderContract, folder: Path) -> None:
    (folder / CONTRACT).write_text(json.dumps(to_json(contract), indent=1, sort_keys=True) + "\n", "utf-8")


def _model_name(folder: Path) -> str:
    """The model card's ``model_name``, else the architecture: nothing that depends on where the folder is."""
    card = folder / "README.md"
    name = _MODEL_NAME.search(card.read_text(encoding="utf-8", errors="replace")) if card.is_file() else None
    return name.group(1) if name else "Qwen3VLForConditionalGeneration"


def _read_contract(folder: Path) -> ReaderContract | None:
    path = folder / CONTRACT
    if not path.is_file():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error})") from error
    return from_json(ReaderContract, data, str(path))
