"""The strict reading of an answer to a multiple choice question."""

import re
from collections.abc import Sequence
from functools import cache
from string import ascii_uppercase

from tilewright.data_gen.answers import exact_match
from tilewright.data_gen.reply_choice import ChoiceReader, Choices, Label
from tilewright.data_gen.reply_text import visible_text

_LETTER_AND_TEXT = re.compile(
    r"(?P<named>(?:the |my )?(?:final |correct )?(?:answer|option|choice)(?: is\b)?\s*[:=-]?\s*)?"
    r"\(?(?P<letter>[a-z])(?P<marks>[).:,-]{0,3})(?:\s+(?:- )?(?P<text>\S.*))?",
    re.IGNORECASE | re.DOTALL,
)


def read_choice(reply: str, options: Sequence[str]) -> int | None:
    """Which of ``options`` a reply names: by its letter (A is the first), its text, or both if they agree.

    Letters may be wrapped as ``parse_judge`` allows it (``**B**``, ``Answer: (B)``, JSON). Nothing is searched for
    inside a sentence: ``A good guess`` isn't A. None for no option or for two. Raises ValueError for other than 2 to 26
    options.
    """
    if not 2 <= len(options) <= len(ascii_uppercase):
        raise ValueError(f"wanted 2 to {len(ascii_uppercase)} options, found {len(options)}")
    letter = _reader(len(options)).read(reply)
    if letter is not None:
        return letter
    text = (visible_text(reply) or "").strip().strip("*`\"'").strip()
    named = [index for index, option in enumerate(options) if exact_match(text, option)]
    said = _LETTER_AND_TEXT.fullmatch(text)
    index = ascii_uppercase.find(said["letter"].upper()) if said is not None else -1
    if said is None or not 0 <= index < len(options):
        return named[0] if len(named) == 1 else None
    if said["text"] is None:
        return index if said["named"] else None
    if exact_match(said["text"], options[index]):
        return index
    return named[0] if len(named) == 1 and not said["marks"] else None  # "A town hall", but never "A. town hall"


@cache
def _reader(options: int) -> ChoiceReader[int]:
    labels = tuple(
        Label(rf"(?:(?:option|choice)\s)?\(?{letter}\)?", index, explains=False)
        for index, letter in enumerate(ascii_uppercase[:options])
    )
    return ChoiceReader(Choices(labels=labels, polarity={}))
