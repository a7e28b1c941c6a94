"""A nano model as a folder that ``load_encoder`` reads."""

import copy
from pathlib import Path

import torch

from tilewright.train.nano import MEAN, STD, NanoModel
from tilewright.train.nano_family import NOTE
from tilewright.train.own_pixels import save_policy
from tilewright.train.pixels import PixelPolicy
from tilewright.train.pretrained import cast_weights

MAX_PIXELS = 4096**2
"""Of a picture, enlarged. Cost grows with the pixels, not with their square."""
_FIGURES = "## Training and figures"
_CARD = """\
---
model_name: {name}
library_name: transformers
---
# {name}

{note}

{parameters:,} parameters: the vision tower of Qwen3-VL ({depth} layers, {width} wide), heads that read characters, and
a fixed binding of letters to vectors of {dimension} dimensions. Pictures are enlarged {enlarge:g} times before they are
read.

```python
from pathlib import Path
from tilewright.train.encoder import load_encoder

encoder = load_encoder(Path("THIS_FOLDER"))
queries, tiles = encoder.encode_queries(["..."]), encoder.encode_tiles([image])
```
"""


def write_nano(
    model: NanoModel,
    folder: Path,
    *,
    name: str,
    card: str = "",
    enlarge: float = 1.0,
    dtype: torch.dtype = torch.bfloat16,
) -> None:
    """Write weights as ``dtype``, configuration, pixel policy and model card to ``folder``; ``model`` stays as it is.

    ``name``: the label in contracts and reports; ``card``: Markdown that ends the model card, such as figures;
    ``enlarge``: how many times a picture's sides are enlarged before it is read (2 for tiles compressed 4 times).
    """
    vision = model.config.vision_config
    factor = vision.patch_size * vision.spatial_merge_size
    policy = PixelPolicy(factor**2, MAX_PIXELS, mean=(MEAN,) * 3, std=(STD,) * 3, fit="pad", enlarge=enlarge)
    stored = copy.deepcopy(model)
    cast_weights(stored, dtype)
    stored.save_pretrained(folder)
    save_policy(policy, folder)
    text = _CARD.format(
        name=name,
        note=NOTE,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        depth=vision.depth,
        width=vision.hidden_size,
        dimension=model.config.dimension,
        enlarge=enlarge,
    )
    figures_of_it = f"\n{_FIGURES}\n\n{card.strip()}\n" if card else ""
    (folder / "README.md").write_text(text + figures_of_it, encoding="utf-8")


def figures(folder: Path) -> str:
    """The ``card`` that a folder was written with."""
    return (folder / "README.md").read_text(encoding="utf-8").partition(_FIGURES)[2].strip()
