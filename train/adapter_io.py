"""PEFT adapters on disk: saved without any path of this machine, loaded only if every key matches."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor, nn

from tilewright.configs.errors import InputError
from tilewright.configs.stage import write_atomically
from tilewright.train.weights import weights_digest


def is_peft(model: nn.Module) -> bool:
    """Whether PEFT has wrapped ``model``."""
    return hasattr(model, "peft_config")


def save_adapter(model: nn.Module, base_digest: str, adapter: Path) -> str:
    """Write the adapter of ``model`` to the folder ``adapter``; return the digest of base and adapter."""
    model.save_pretrained(adapter, save_embedding_layers=False)  # type: ignore[operator]
    (adapter / "README.md").unlink(missing_ok=True)
    path = adapter / "adapter_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = None
    for name in ("target_modules", "modules_to_save"):  # PEFT keeps sets, whose order changes from run to run
        config[name] = sorted(config[name]) if isinstance(config[name], list) else config[name]
    write_atomically(path, json.dumps(config, indent=2, sort_keys=True) + "\n")
    return adapter_digest(base_digest, adapter)


def adapter_digest(base_digest: str, adapter: Path) -> str:
    """SHA-256 of a base's weights and an adapter's."""
    return hashlib.sha256(f"{base_digest}\n{weights_digest(adapter)}".encode()).hexdigest()


def with_adapter(model: nn.Module, adapter: Path) -> nn.Module:
    """``model`` with the PEFT adapter of a folder; InputError unless the keys match one to one."""
    import peft

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
