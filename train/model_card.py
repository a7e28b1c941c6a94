"""The model card of an export: what it is, how it makes vectors, and the figures of the run that trained it."""

import json
from typing import Any

from tilewright.train import families
from tilewright.train.contract import EncoderContract

STAND_IN = "random weights"  # the label of make_tiny_model's folders says so
_PROVENANCE = ("tilewright", "commit", "packages", "ranks", "started", "seconds")  # no path, no machine
_USES = {
    "adapter": """\
```python
from pathlib import Path
from tilewright.train.encoder import load_encoder
encoder = load_encoder(Path("THIS_FOLDER"), base_folder=Path("FOLDER_OF_THE_BASE_MODEL"))
```
It is a PEFT adapter too: `PeftModel.from_pretrained(base_model, "THIS_FOLDER")`.
""",
    "merged": """\
```python
from pathlib import Path
from tilewright.train.encoder import load_encoder
encoder = load_encoder(Path("THIS_FOLDER"))
queries, tiles = encoder.encode_queries(["..."]), encoder.encode_tiles([image])
```
The weights are those of an ordinary transformers folder: `LOADER.from_pretrained("THIS_FOLDER")`.
""",
    "sentence-transformers": """\
```python
from sentence_transformers import SentenceTransformer
model = SentenceTransformer("THIS_FOLDER", trust_remote_code=True)
queries = model.encode(["..."], prompt_name="query")
tiles = model.encode([image])  # a PIL image, or a text that stands where a tile does
```
It needs `tilewright` installed: its one module is `tilewright.train.sentence_encoder`, and no code is in this folder.
sentence-transformers 6 asks for `trust_remote_code=True` before it imports a module that isn't its own.
""",
}


def model_card(contract: EncoderContract, encoder_hash: str, form: str, manifest: dict[str, Any] | None) -> str:
    """README.md of an export. ``manifest`` is that of the training run, None if it isn't known."""
    family = families.by_name(contract.adapter)
    parts = [
        f"---\nmodel_name: trained from {contract.base_model}\nlibrary_name: {_library(form)}\n---",
        f"# An embedder of queries and page tiles, trained by Tilewright from: {contract.base_model}",
    ]
    if STAND_IN in contract.base_model:
        parts.append(
            "**A stand-in.** Its base is a tiny model with random weights: it tests a pipeline, and its figures say"
            " nothing of the real model."
        )
    if family.NOTE:
        parts.append(family.NOTE)
    use = _USES[form].replace("LOADER", family.LOADER).rstrip()
    parts += ["## Use\n\n" + use, "## Contract\n\n" + _contract(contract, encoder_hash)]
    parts.append("## Training run\n\n" + _run(manifest))
    return "\n\n".join(parts) + "\n"


def _library(form: str) -> str:
    return {"adapter": "peft", "merged": "transformers"}.get(form, form)


def _contract(contract: EncoderContract, encoder_hash: str) -> str:
    last = f"`{contract.last_token}` ({contract.last_token_id}), " if contract.last_token_id >= 0 else ""
    pixels = contract.pixels
    fit = f", enlarged {pixels.enlarge:g} times, padded to whole tokens" if pixels.fit == "pad" else ""
    rows = {
        "vector space (contract and weights)": f"`{encoder_hash}`",
        "contract": f"`{contract.hash}`",
        "base model's weights": f"`{contract.base_digest}`",
        "dimension": contract.dimension,
        "instruction of queries": contract.query_instruction,
        "instruction of tiles": contract.tile_instruction,
        "pooled": f"{last}{contract.pooling}",
        "pixels": f"{pixels.min_pixels} to {pixels.max_pixels}, by {pixels.backend}{fit}",
    }
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(["| | |", "|---|---|", *lines])


def _run(manifest: dict[str, Any] | None) -> str:
    if manifest is None:
        return "No manifest stood beside the checkpoint: what it was trained on and how isn't known."
    shown = {name: manifest[name] for name in ("identity", "request", "counts")}
    shown["provenance"] = {name: manifest["provenance"].get(name) for name in _PROVENANCE}
    text = json.dumps(shown, indent=1, ensure_ascii=False)
    fence = "`" * max(3, *(len(run) + 1 for run in _fences(text)))
    return f"Figures, settings and digests of inputs, from its manifest:\n\n{fence}json\n{text}\n{fence}"


def _fences(text: str) -> list[str]:
    """Runs of backticks in ``text``: a fence must be longer."""
    runs, run = [""], ""
    for character in text:
        run = run + character if character == "`" else ""
        runs.append(run)
    return runs
