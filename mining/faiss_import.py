"""FAISS if it can be imported, else nothing: an extra, never a requirement."""

import importlib
import importlib.metadata
from collections.abc import Iterable
from functools import cache
from typing import Any

from tilewright.configs.errors import UserError


class FaissConflict(UserError, RuntimeError):
    """Two builds of FAISS are installed over one another."""


def check_one_build(distributions: Iterable[str]) -> None:
    """Raise FaissConflict if ``distributions`` hold two builds: both own the module ``faiss``, the later one wins."""
    builds = sorted({name.lower().replace("_", "-") for name in distributions})
    builds = [name for name in builds if name == "faiss-cpu" or name.startswith("faiss-gpu")]
    if len(builds) > 1:
        raise FaissConflict(
            f"{' and '.join(builds)} are both installed and overwrite one another: uninstall all of them, then install"
            " one (tilewright[cpu] or tilewright[gpu])"
        )


@cache
def import_faiss() -> Any | None:
    """The module ``faiss``, None if it is missing or doesn't load. Raises FaissConflict for two builds."""
    check_one_build(
        name for found in importlib.metadata.distributions() if (name := found.metadata["Name"]) is not None
    )
    try:
        return importlib.import_module("faiss")
    except (ImportError, OSError, AttributeError, RuntimeError):  # a build that doesn't fit the machine: no FAISS
        return None


@cache
def import_faiss_gpu() -> Any | None:
    """FAISS if it was built for GPUs and sees one, with its torch bindings; else None: any failure means no."""
    faiss = import_faiss()
    if faiss is None:
        return None
    try:
        if faiss.get_num_gpus() < 1:
            return None
        importlib.import_module("faiss.contrib.torch_utils")
        faiss.StandardGpuResources()
    except (ImportError, OSError, AttributeError, RuntimeError):
        return None
    return faiss
