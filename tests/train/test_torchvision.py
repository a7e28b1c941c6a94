"""With torchvision or without it: the same image processor, contract and vectors, and the choice is recorded."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json, sys
from pathlib import Path
wanted = sys.argv[1]
if wanted == "absent":  # also where it is installed
    sys.modules["torchvision"] = None
import torch
torch.set_num_threads(1)
from transformers.utils import is_torchvision_available
from tilewright.train.encoder import load_encoder, probe_vectors
encoder = load_encoder(Path(sys.argv[2]))
print(json.dumps({
    "available": is_torchvision_available(),
    "backend": encoder.contract.pixels.backend,
    "contract": encoder.contract.hash,
    "probes": probe_vectors(encoder).tolist(),
}))
"""
STAND_IN = {  # what transformers imports at start-up; nothing of it works
    "torchvision/__init__.py": '__version__ = "0.28.0"\n',
    "torchvision/io.py": "",
    "torchvision/transforms/__init__.py": (
        "from enum import Enum\n"
        "class InterpolationMode(Enum):\n"
        "    NEAREST, NEAREST_EXACT, BILINEAR, BICUBIC, BOX, HAMMING, LANCZOS = range(7)\n"
    ),
    "torchvision/transforms/functional.py": "def pil_to_tensor(image):\n    raise NotImplementedError\n",
    "torchvision/transforms/v2/__init__.py": "",
    "torchvision/transforms/v2/functional.py": "",
    "torchvision-0.28.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torchvision\nVersion: 0.28.0\n",
}


def _encoded(presence: str, folder: Path, path: Path) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(path)}
    command = [sys.executable, "-c", PROGRAM, presence, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A folder with a torchvision that transformers takes for installed."""
    for name, text in STAND_IN.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.slow
def test_present_or_absent_the_choice_is_the_same(reader_parts: Any, stand_in: Path) -> None:
    folder = Path(reader_parts.model).parent / "embedder"
    present = _encoded("present", folder, stand_in)
    absent = _encoded("absent", folder, stand_in)
    assert present.pop("available") and not absent.pop("available")
    assert present["backend"] == "pillow"
    assert present == absent
