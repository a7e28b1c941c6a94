"""A request about one tile: with its picture, or with its DOM text for a model that can't see.

Which of the two is the template's own: those for texts are a kind of their own (``answer_text.v1`` beside
``answer.v1``). In them the tile stands behind the instructions, so that a server can keep those from call to call.
"""

from tilewright.data_gen.llm import ImagePart, Request
from tilewright.data_gen.prompts import Prompt, check_prompt
from tilewright.data_gen.records import Tile

_TEXT = "_text"


def check_prompt_of_tile(setting: str, name: str, kind: str) -> None:
    """Raise ValueError unless ``name`` is a shipped version of ``kind``, for pictures or for texts."""
    check_prompt(setting, name, kind, f"{kind}{_TEXT}")


def is_for_texts(name: str) -> bool:
    """Whether a template, written as ``answer_text.v1``, takes a tile's text."""
    return name.partition(".")[0].endswith(_TEXT)


def tile_request(prompt: Prompt, purpose: str, tile: Tile, **values: str) -> Request:
    """``prompt`` filled with ``values``, behind the tile's picture or with the tile's text in it."""
    if is_for_texts(prompt.name):
        parts: tuple[str | ImagePart, ...] = (prompt.fill(tile=tile.text, **values),)
    else:
        parts = ImagePart(tile.image), prompt.fill(**values)
    return Request(purpose, parts, schema=prompt.schema, schema_name=purpose)
