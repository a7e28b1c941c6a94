"""Tools that only some rows need: a missing one is an error that says what to install."""

import importlib
from typing import Any

from tilewright.configs.errors import UserError


class MissingToolError(UserError, RuntimeError):
    """A program or package that a row needs isn't installed; the message says how to get it."""


def require_module(name: str, extra: str) -> Any:
    """Import an optional package. Raises MissingToolError naming the extra that brings it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingToolError(f"the package {name} is not installed: `pip install tilewright[{extra}]`") from error
