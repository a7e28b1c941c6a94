"""Encoders on disk: base folders, full checkpoints and adapter checkpoints; whatever doesn't match is an error."""

import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor, nn

from tilewright.configs.errors import InputError
from tilewright.configs.stage import write_atomically
from tilewright.data_gen.records import from_json
from tilewright.train import qwen3_vl
from tilewright.train.batch import Batcher
from tilewright.train.contract import EncoderContract, contract_differences, encoder_hash
from tilewright.train.encoder import Encoder, probe_vectors
from tilewright.train.pixels import PixelPolicy, check_policy, load_image_processor, load_policy
from tilewright.train.prompts import PROMPT, QUERY_INSTRUCTION, TILE_INSTRUCTION, finish_instruction
from tilewright.train.tokenizer import PromptTokenizer

ENCODER_FILE, PROBES_FILE, ADAPTER_FOLDER = "encoder.json", "probes.npy", "adapter"
PROBE_COSINE = 0.999
MAX_TEXT_TOKENS = 4096
_COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
)
_CARD = """\
---
model_name: trained from {base}
---
An embedder trained by Tilewright from: {base}. `encoder.json` says how it makes vectors of queries and tiles.
"""
_SNAPSHOT = re.compile(r"models--([^/]+)/snapshots/[0-9a-f]+$")
_MODEL_NAME = re.compile(r"^model_name:\s*(\S.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Base:
    """What an adapter sits on: a folder relative to the checkpoint, and the digest of its weights."""

    folder: str
    weights_digest: str


@dataclass(frozen=True)
class EncoderFile:
    """``encoder.json``. ``base`` is None for full weights."""

    contract: EncoderContract
    contract_hash: str
    weights_digest: str
    hash: str
    base: Base | None


def read_encoder_file(folder: Path) -> EncoderFile:
    """The ``encoder.json`` of a checkpoint or of a folder of vectors. Raises InputError if it isn't one of ours."""
    path = folder / ENCODER_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable encoder file: {error}") from error
    stored = from_json(EncoderFile, data, str(path))
    if stored.contract.hash != stored.contract_hash or stored.hash != encoder_hash(
        stored.contract, stored.weights_digest
    ):
        raise InputError(f"{path}: contract and hash don't belong together: edited by hand, or by another version")
    return stored


def write_encoder_file(folder: Path, contract: EncoderContract, weights_digest: str, base: Base | None = None) -> str:
    """Write ``encoder.json``; return the encoder hash."""
    entry = EncoderFile(contract, contract.hash, weights_digest, encoder_hash(contract, weights_digest), base)
    write_atomically(folder / ENCODER_FILE, json.dumps(dataclasses.asdict(entry), indent=1, ensure_ascii=False) + "\n")
    return entry.hash


def weights_digest(folder: Path) -> str:
    """SHA-256 over name, type, shape and bytes of every tensor in the folder's safetensors files.

    It doesn't depend on how tensors are spread over files. Raises InputError if there are none.
    """
    files = sorted(folder.glob("*.safetensors"))
    places: dict[str, Path] = {}
    for file in files:
        with _open(file) as tensors:
            places |= dict.fromkeys(tensors.keys(), file)
    if not places:
        raise InputError(f"{folder}: no weights: wanted *.safetensors files")
    digest = hashlib.sha256()
    for name in sorted(places):
        with _open(places[name]) as tensors:
            tensor = tensors.get_tensor(name)
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except Exception as error:
        raise InputError(f"{path}: not a readable safetensors file: {error}") from error


def load(
    folder: Path,
    device: torch.device,
    dtype: torch.dtype,
    options: dict[str, int | None],
    base_folder: Path | None,
) -> Encoder:
    """See ``encoder.load_encoder``."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder: wanted a save_pretrained folder or a checkpoint")
    stored = read_encoder_file(folder) if (folder / ENCODER_FILE).is_file() else None
    if stored is None:
        encoder = _load_base(folder, dtype, options)
    else:
        _check_options(folder, stored.contract, options)
        pixels = stored.contract.pixels
        options = {"min_pixels": pixels.min_pixels, "max_pixels": pixels.max_pixels}
        options["dimension"] = stored.contract.dimension
        if stored.base is None:
            encoder = _load_full(folder, stored, dtype, options)
        else:
            encoder = _load_adapter(folder, stored, dtype, options, base_folder)
    encoder.model.to(device)
    encoder.mark_unchanged(encoder.weights_digest)
    if stored is not None:
        _check_probes(folder, encoder)
    return encoder


def _check_options(folder: Path, contract: EncoderContract, options: dict[str, int | None]) -> None:
    pixels = contract.pixels
    found = {"min_pixels": pixels.min_pixels, "max_pixels": pixels.max_pixels, "dimension": contract.dimension}
    for name, value in options.items():
        if value is not None and value != found[name]:
            raise InputError(f"{folder}: {name}: the checkpoint's contract says {found[name]}, asked for {value}")


def _load_base(folder: Path, dtype: torch.dtype, options: dict[str, int | None]) -> Encoder:
    sizes = qwen3_vl.dimensions(qwen3_vl.read_config(folder))
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
        adapter=qwen3_vl.NAME,
        base_model=_model_name(folder),
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
    model = qwen3_vl.load_model(folder, dtype)
    return Encoder(contract, Batcher(contract, tokenizer), model, weights_digest=digest, files=folder)


def _check_parts(folder: Path, sizes: qwen3_vl.Dimensions, policy: PixelPolicy, tokenizer: PromptTokenizer) -> None:
    """Model, tokenizer and image processor must belong together."""
    if tokenizer.vocab_size > sizes.vocabulary:
        raise InputError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} tokens, the model's vocabulary {sizes.vocabulary}:"
            " this tokenizer belongs to another model"
        )
    if tokenizer.ids["<|image_pad|>"] != sizes.image_token_id:
        raise InputError(
            f"{folder}: <|image_pad|> is token {tokenizer.ids['<|image_pad|>']} of the tokenizer, the model's"
            f" image_token_id is {sizes.image_token_id}: this tokenizer belongs to another model"
        )
    for name in ("patch_size", "merge_size", "temporal_patch_size"):
        if getattr(policy, name) != getattr(sizes, name):
            raise InputError(
                f"{folder}: {name}: the image processor says {getattr(policy, name)}, the model {getattr(sizes, name)}"
            )


def _load_full(folder: Path, stored: EncoderFile, dtype: torch.dtype, options: dict[str, int | None]) -> Encoder:
    encoder = _load_base(folder, dtype, options)
    _check_contract(folder, stored.contract, _with_history(encoder.contract, stored.contract))
    if encoder.weights_digest != stored.weights_digest:
        raise InputError(
            f"{folder}: weights: {ENCODER_FILE} says {stored.weights_digest[:16]}, the files hold"
            f" {encoder.weights_digest[:16]}: they were replaced after the checkpoint was written"
        )
    return _with_contract(encoder, stored.contract)


def _with_history(found: EncoderContract, stored: EncoderContract) -> EncoderContract:
    """``found`` with the base's label and digest of ``stored``: history that a folder of weights can't show."""
    return dataclasses.replace(found, base_model=stored.base_model, base_digest=stored.base_digest)


def _with_contract(encoder: Encoder, contract: EncoderContract) -> Encoder:
    encoder.contract = contract
    encoder.batcher = Batcher(contract, encoder.batcher.tokenizer)
    return encoder


def _check_contract(folder: Path, stored: EncoderContract, found: EncoderContract) -> None:
    if stored == found:
        return
    hint = ""
    if stored.tokenizer != found.tokenizer:
        hint = " (its tokenizer was replaced: this checkpoint belongs to another tokenizer)"
    raise InputError(
        f"{folder}: the encoder contract doesn't match what is there{hint}: {contract_differences(stored, found)}"
    )


def _model_name(folder: Path) -> str:
    """A label: the hub name of a cached snapshot, `model_name` of a model card, else the architecture."""
    snapshot = _SNAPSHOT.search(folder.absolute().as_posix())
    if snapshot:
        return snapshot.group(1).replace("--", "/")
    card = folder / "README.md"
    if card.is_file():
        front_matter = card.read_text(encoding="utf-8").partition("\n---")[0]
        name = _MODEL_NAME.search(front_matter)
        if name:
            return name.group(1).strip("'\"")
    return qwen3_vl.NAME


def _check_probes(folder: Path, encoder: Encoder) -> None:
    path = folder / PROBES_FILE
    try:
        stored = torch.from_numpy(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: probe vectors can't be read: {error}") from error
    found = probe_vectors(encoder)
    if stored.shape != found.shape:
        raise InputError(f"{path}: probe vectors have shape {tuple(stored.shape)}, wanted {tuple(found.shape)}")
    cosine = (stored * found).sum(1).min().item()
    if not cosine >= PROBE_COSINE:
        raise InputError(
            f"{folder}: the loaded encoder gives other vectors than the saved one: lowest probe cosine {cosine:.4f},"
            f" wanted at least {PROBE_COSINE}"
        )


def save(encoder: Encoder, folder: Path) -> str:
    """See ``encoder.save_encoder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.safetensors*"):
        stale.unlink()
    shutil.rmtree(folder / ADAPTER_FOLDER, ignore_errors=True)
    if _is_peft(encoder.model):
        base = Base(Path(os.path.relpath(encoder.files, folder)).as_posix(), encoder.files_digest)
        digest = _save_adapter(encoder, folder)
    else:
        base = None
        encoder.model.save_pretrained(folder)  # type: ignore[operator]
        for name in _COPIED:
            if (encoder.files / name).is_file() and not folder.samefile(encoder.files):
                shutil.copyfile(encoder.files / name, folder / name)
        (folder / "README.md").write_text(_CARD.format(base=encoder.contract.base_model), encoding="utf-8")
        digest = weights_digest(folder)
    np.save(folder / PROBES_FILE, probe_vectors(encoder).numpy())
    encoder.mark_unchanged(digest)
    return write_encoder_file(folder, encoder.contract, digest, base)


def _is_peft(model: nn.Module) -> bool:
    return hasattr(model, "peft_config")


def _save_adapter(encoder: Encoder, folder: Path) -> str:
    """Write ``adapter/`` without any path of this machine; return the digest of base and adapter."""
    adapter = folder / ADAPTER_FOLDER
    encoder.model.save_pretrained(adapter, save_embedding_layers=False)  # type: ignore[operator]
    (adapter / "README.md").unlink(missing_ok=True)
    path = adapter / "adapter_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = None
    for name in ("target_modules", "modules_to_save"):  # PEFT keeps sets, whose order changes from run to run
        config[name] = sorted(config[name]) if isinstance(config[name], list) else config[name]
    write_atomically(path, json.dumps(config, indent=2, sort_keys=True) + "\n")
    return _adapter_digest(encoder.files_digest, adapter)


def _adapter_digest(base_digest: str, adapter: Path) -> str:
    return hashlib.sha256(f"{base_digest}\n{weights_digest(adapter)}".encode()).hexdigest()


def _load_adapter(
    folder: Path,
    stored: EncoderFile,
    dtype: torch.dtype,
    options: dict[str, int | None],
    base_folder: Path | None,
) -> Encoder:
    assert stored.base is not None
    base = Path(os.path.normpath(base_folder if base_folder is not None else folder / stored.base.folder))
    if not base.is_dir():
        raise InputError(f"{folder}: its base model isn't at {base}: put it there, or pass base_folder")
    encoder = _load_base(base, dtype, options)
    if encoder.weights_digest != stored.base.weights_digest:
        raise InputError(
            f"{folder}: its base has weights {stored.base.weights_digest[:16]}, the model at {base} has"
            f" {encoder.weights_digest[:16]}: another base model"
        )
    _check_contract(folder, stored.contract, _with_history(encoder.contract, stored.contract))
    digest = _adapter_digest(stored.base.weights_digest, folder / ADAPTER_FOLDER)
    if digest != stored.weights_digest:
        raise InputError(
            f"{folder}: the adapter's weights aren't those of {ENCODER_FILE}: replaced after it was written"
        )
    encoder.model = _with_adapter(encoder.model, folder / ADAPTER_FOLDER)
    encoder.mark_unchanged(digest)
    return _with_contract(encoder, stored.contract)


def _with_adapter(model: nn.Module, adapter: Path) -> nn.Module:
    """``model`` with the PEFT adapter of a folder; InputError unless the keys match one to one."""
    import peft
    from safetensors.torch import load_file

    weights: dict[str, Tensor] = load_file(adapter / "adapter_model.safetensors")
    config = peft.PeftConfig.from_pretrained(adapter)
    config.inference_mode = False  # else its weights couldn't be trained on
    wrapped = peft.get_peft_model(model, config)  # type: ignore[arg-type]
    expected = set(peft.get_peft_model_state_dict(wrapped, save_embedding_layers=False))
    missing, unexpected = expected - weights.keys(), weights.keys() - expected
    if missing or unexpected:
        raise InputError(
            f"{adapter}: adapter weights don't match: {_some('missing', missing)}, {_some('unexpected', unexpected)}"
        )
    peft.set_peft_model_state_dict(wrapped, weights)
    wrapped.eval()
    return wrapped  # type: ignore[no-any-return]


def _some(kind: str, names: Iterable[str]) -> str:
    ordered = sorted(names)
    return f"{len(ordered)} {kind}" + (f" (first: {ordered[0]})" if ordered else "")
