"""Encoders on disk: base folders, full checkpoints and adapter checkpoints; whatever doesn't match is an error."""

import dataclasses
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError

import numpy as np
import torch

from tilewright.configs.errors import InputError
from tilewright.configs.stage import write_atomically
from tilewright.data_gen.records import from_json
from tilewright.train import families
from tilewright.train.adapter_io import adapter_digest, is_peft, save_adapter, with_adapter
from tilewright.train.base_folder import Options
from tilewright.train.batch import Batcher
from tilewright.train.contract import EncoderContract, contract_differences, encoder_hash
from tilewright.train.encoder import Encoder, probe_vectors
from tilewright.train.own_pixels import save_policy
from tilewright.train.weights import weights_digest

ENCODER_FILE, PROBES_FILE, ADAPTER_FOLDER = "encoder.json", "probes.npy", "adapter"
PROBE_COSINE = 0.999
HALF_PROBE_COSINE = 0.995
"""Of a model loaded with fewer bits: what nano makes of a probe that isn't writing moves by .002."""
PROBE_LENGTH_ERROR = 1e-3
_COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "video_preprocessor_config.json",
)
_CARD = """\
---
model_name: trained from {base}
---
An embedder trained by Tilewright from: {base}. `encoder.json` says how it makes vectors of queries and tiles.
"""


@dataclass(frozen=True)
class Base:
    """What an adapter sits on: a folder relative to the checkpoint ("" if it was left behind), its weights' digest."""

    folder: str
    weights_digest: str

    def elsewhere(self) -> "Base":
        """The same base, its place not told."""
        return dataclasses.replace(self, folder="")


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
    except (OSError, ValueError, RecursionError) as error:
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


def load(
    folder: Path,
    device: torch.device,
    dtype: torch.dtype,
    options: Options,
    base_folder: Path | None,
    *,
    check_probes: bool = True,
) -> Encoder:
    """See ``encoder.load_encoder``. ``check_probes`` False leaves the comparison of probe vectors to the caller."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder: wanted a save_pretrained folder or a checkpoint")
    stored = read_encoder_file(folder) if (folder / ENCODER_FILE).is_file() else None
    if stored is None:
        encoder = load_base(folder, dtype, options)
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
    if stored is not None and check_probes:
        _check_probes(folder, encoder)
    return encoder


def load_base(folder: Path, dtype: torch.dtype, options: Options) -> Encoder:
    """The encoder of a base folder under ``options``, by its family. Raises InputError as ``Family.load``."""
    loaded = families.of_folder(folder).load(folder, dtype, options)
    contract = loaded.contract
    return Encoder(contract, loaded.batcher, loaded.model, weights_digest=contract.base_digest, files=folder)


def _check_options(folder: Path, contract: EncoderContract, options: Options) -> None:
    pixels = contract.pixels
    found = {"min_pixels": pixels.min_pixels, "max_pixels": pixels.max_pixels, "dimension": contract.dimension}
    for name, value in options.items():
        if value is not None and value != found[name]:
            raise InputError(f"{folder}: {name}: the checkpoint's contract says {found[name]}, asked for {value}")


def _load_full(folder: Path, stored: EncoderFile, dtype: torch.dtype, options: Options) -> Encoder:
    encoder = load_base(folder, dtype, options)
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
    encoder.batcher = Batcher(contract, encoder.batcher.rows)
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


def probe_cosines(folder: Path, encoder: Encoder) -> list[float]:
    """Cosine of each stored probe vector with what ``encoder`` makes of it. Raises InputError if they can't be read."""
    path = folder / PROBES_FILE
    try:
        stored = torch.from_numpy(np.load(path, allow_pickle=False))
    except (OSError, ValueError, TypeError, EOFError, TokenError) as error:  # numpy parses the header
        raise InputError(f"{path}: probe vectors can't be read: {error}") from error
    found = probe_vectors(encoder)
    if stored.shape != found.shape:
        raise InputError(f"{path}: probe vectors have shape {tuple(stored.shape)}, wanted {tuple(found.shape)}")
    if not stored.is_floating_point() or (stored.norm(dim=-1) - 1).abs().max() > PROBE_LENGTH_ERROR:
        raise InputError(f"{path}: probe vectors aren't of unit length: the file was changed after it was written")
    return [float(value) for value in (stored * found).sum(1)]


def wanted_cosine(encoder: Encoder) -> float:
    """What the cosine of a stored probe vector and of ``encoder``'s must be at least, by the bits of its weights."""
    return PROBE_COSINE if next(encoder.model.parameters()).dtype.itemsize >= 4 else HALF_PROBE_COSINE


def _check_probes(folder: Path, encoder: Encoder) -> None:
    cosine, wanted = min(probe_cosines(folder, encoder)), wanted_cosine(encoder)
    if not cosine >= wanted:
        raise InputError(
            f"{folder}: the loaded encoder gives other vectors than the saved one: lowest probe cosine {cosine:.4f},"
            f" wanted at least {wanted}"
        )


def write_probes(folder: Path, encoder: Encoder) -> None:
    """Store the probe vectors that ``encoder`` makes."""
    np.save(folder / PROBES_FILE, probe_vectors(encoder).numpy())


def save(encoder: Encoder, folder: Path) -> str:
    """See ``encoder.save_encoder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (folder / ENCODER_FILE, *folder.glob("*.safetensors*")):  # a kill from here on leaves no checkpoint
        stale.unlink(missing_ok=True)
    shutil.rmtree(folder / ADAPTER_FOLDER, ignore_errors=True)
    if is_peft(encoder.model):
        base = Base(Path(os.path.relpath(encoder.files, folder)).as_posix(), encoder.files_digest)
        digest = save_adapter(encoder.model, encoder.files_digest, folder / ADAPTER_FOLDER)
    else:
        base = None
        encoder.model.save_pretrained(folder)  # type: ignore[operator]
        for name in _COPIED:
            if (encoder.files / name).is_file() and not folder.samefile(encoder.files):
                shutil.copyfile(encoder.files / name, folder / name)
        save_policy(encoder.contract.pixels, folder)  # limits given at loading stand in it
        note = f"\n{encoder.family.NOTE}\n" if encoder.family.NOTE else ""
        card = _CARD.format(base=encoder.contract.base_model) + note
        (folder / "README.md").write_text(card, encoding="utf-8")
        digest = weights_digest(folder)
    write_probes(folder, encoder)
    encoder.mark_unchanged(digest)
    return write_encoder_file(folder, encoder.contract, digest, base)


def _load_adapter(
    folder: Path,
    stored: EncoderFile,
    dtype: torch.dtype,
    options: Options,
    base_folder: Path | None,
) -> Encoder:
    assert stored.base is not None
    if not stored.base.folder and base_folder is None:
        raise InputError(
            f"{folder}: an adapter without its base: pass base_folder, a folder of {stored.contract.base_model}"
            f" with weights {stored.base.weights_digest[:16]}"
        )
    base = Path(os.path.normpath(base_folder if base_folder is not None else folder / stored.base.folder))
    if not base.is_dir():
        raise InputError(f"{folder}: its base model isn't at {base}: put it there, or pass base_folder")
    encoder = load_base(base, dtype, options)
    if encoder.weights_digest != stored.base.weights_digest:
        raise InputError(
            f"{folder}: its base has weights {stored.base.weights_digest[:16]}, the model at {base} has"
            f" {encoder.weights_digest[:16]}: another base model"
        )
    _check_contract(folder, stored.contract, _with_history(encoder.contract, stored.contract))
    adapter = folder / ADAPTER_FOLDER if (folder / ADAPTER_FOLDER).is_dir() else folder  # an export has PEFT's layout
    digest = adapter_digest(stored.base.weights_digest, adapter)
    if digest != stored.weights_digest:
        raise InputError(
            f"{folder}: the adapter's weights aren't those of {ENCODER_FILE}: replaced after it was written"
        )
    encoder.model = with_adapter(encoder.model, adapter)
    encoder.mark_unchanged(digest)
    return _with_contract(encoder, stored.contract)
