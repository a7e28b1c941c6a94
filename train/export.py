"""A checkpoint in the forms that others load: a PEFT adapter, merged weights, a sentence-transformers folder."""

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tilewright.configs.errors import InputError
from tilewright.configs.manifest import digest_file, read_manifest
from tilewright.configs.stage import write_atomically
from tilewright.train.adapter_io import is_peft
from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.encoder_io import (
    ADAPTER_FOLDER,
    ENCODER_FILE,
    read_encoder_file,
    save,
    write_encoder_file,
    write_probes,
)
from tilewright.train.model_card import model_card
from tilewright.train.pretrained import cast_weights

FORMS = ("adapter", "merged", "sentence-transformers")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
MODULE = "tilewright.train.sentence_encoder.SentenceEncoder"


@dataclass(frozen=True)
class Exported:
    """What was written: the folder, its form, the hash of its vector space."""

    folder: Path
    form: str
    hash: str


def export(
    checkpoint: Path, out: Path, form: str, *, dtype: str = "bfloat16", base_folder: Path | None = None
) -> Exported:
    """Write ``checkpoint`` to the new or empty folder ``out``, whole or not at all, with a model card.

    ``adapter``: PEFT's files and the encoder contract, without the base model. ``merged``: one set of weights, merged
    in float32 and stored as ``dtype``, for ``load_encoder`` and transformers. ``sentence-transformers``: the same, and
    what ``SentenceTransformer`` needs to give the same vectors. Raises InputError for a checkpoint that doesn't hold
    together, an ``out`` that isn't empty or lies in the checkpoint, and a form that the checkpoint can't take.
    """
    if form not in FORMS or dtype not in DTYPES:
        raise InputError(f"export: wanted one of {FORMS} and one of {tuple(DTYPES)}, found {form!r} and {dtype!r}")
    _check_out(checkpoint, out)
    if not (checkpoint / ENCODER_FILE).is_file():
        raise InputError(f"{checkpoint}: no {ENCODER_FILE}: wanted a checkpoint, as train_embedder writes it")
    encoder = load_encoder(checkpoint, base_folder=base_folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as beside:
        partial = Path(beside) / out.name
        partial.mkdir()
        encoder_hash = _write(checkpoint, encoder, partial, form, DTYPES[dtype])
        card = model_card(encoder.contract, encoder_hash, form, _manifest_of(checkpoint))
        write_atomically(partial / "README.md", card)
        if out.is_dir():
            out.rmdir()  # empty, as checked
        partial.rename(out)
    return Exported(out, form, encoder_hash)


def _write(checkpoint: Path, encoder: Encoder, out: Path, form: str, dtype: torch.dtype) -> str:
    if form == "adapter":
        return _write_adapter(checkpoint, encoder, out)
    encoder_hash = _write_merged(encoder, out, dtype)
    if form == "sentence-transformers":
        _write_modules(encoder, out)
    return encoder_hash


def _check_out(checkpoint: Path, out: Path) -> None:
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise InputError(f"{out}: wanted a new or empty folder, found a link or a file")
    if out.is_dir() and (files := len(list(out.iterdir()))):
        raise InputError(f"{out}: wanted a new or empty folder, found {files} files in it")
    inside, outside = out.resolve(), checkpoint.resolve()
    if inside.is_relative_to(outside) or outside.is_relative_to(inside):
        raise InputError(f"{out}: wanted a folder outside of the checkpoint {checkpoint}")


def _write_adapter(checkpoint: Path, encoder: Encoder, out: Path) -> str:
    """PEFT's files at the root, so that ``PeftModel.from_pretrained(base, out)`` finds them."""
    stored = read_encoder_file(checkpoint) if is_peft(encoder.model) else None
    if stored is None or stored.base is None:
        raise InputError(f"{checkpoint}: it holds full weights, no adapter: export it as merged")
    source = checkpoint / ADAPTER_FOLDER
    for path in (source if source.is_dir() else checkpoint).glob("adapter_*"):
        shutil.copyfile(path, out / path.name)
    write_probes(out, encoder)
    base = stored.base.elsewhere()
    return write_encoder_file(out, encoder.contract, stored.weights_digest, base)


def _write_merged(encoder: Encoder, out: Path, dtype: torch.dtype) -> str:
    if is_peft(encoder.model):
        encoder.model = encoder.model.merge_and_unload()  # type: ignore[operator]
    cast_weights(encoder.model, dtype)
    encoder_hash = save(encoder, out)
    cast_weights(encoder.model, torch.float32)
    write_probes(out, encoder)  # those of the stored weights, in the precision that load_encoder takes by itself
    return encoder_hash


def _write_modules(encoder: Encoder, out: Path) -> None:
    """What ``SentenceTransformer`` reads: the module that calls load_encoder, and the two instructions as prompts."""
    modules = [{"idx": 0, "name": "0", "path": "", "type": MODULE}]
    config: dict[str, Any] = {
        "model_type": "SentenceTransformer",
        "prompts": {"query": encoder.contract.query_instruction, "document": encoder.contract.tile_instruction},
        "default_prompt_name": "document",
        "similarity_fn_name": "cosine",
    }
    for name, content in (("modules.json", modules), ("config_sentence_transformers.json", config)):
        write_atomically(out / name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _manifest_of(checkpoint: Path) -> dict[str, Any] | None:
    """The manifest of the run that wrote ``checkpoint``, in the folder above it; None if there is no such one."""
    folder = checkpoint.resolve()
    manifest = read_manifest(folder.parent)
    if manifest is None:
        return None
    written = manifest["outputs"].get(f"{folder.name}/{ENCODER_FILE}")
    return manifest if written == digest_file(folder / ENCODER_FILE) else None
