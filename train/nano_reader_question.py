"""A question as a nano reader sees it: its words as vectors, what it asks for, and where in it that is asked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tilewright.train.nano_characters import letters_of
from tilewright.train.nano_reader_words import text_vectors

_ASKS = (  # the first kind found in a question says where its gap is: English, as the alphabet is Latin
    ("how many", r"\bhow (many|much)\b"),
    ("when", r"\b(which|what) (date|day|month|year|decade|century)\b|\bwhen\b"),
    ("which", r"\bwhich\b"),
    ("what", r"\bwhat\b"),
    ("who", r"\b(who|whom|whose)\b"),
    ("where", r"\bwhere\b"),
    ("how", r"\bhow\b"),
)
KINDS = (*(kind for kind, _ in _ASKS), "label", "other")
"""What a question asks for; ``label``: it names a row of a table or infobox (`what is the area of ...`)."""
_LABEL = re.compile(
    r"^(what|who) (is|are|was|were) |\bis given for\b|\bis named as\b|^for .*, (what|who) (is|are)\b", re.I
)
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Asked:
    """``vectors`` [m, DIMENSION] of the m words of a question that hold letters; ``gap``: which of them asks (m: none
    does); ``kinds`` float32 [KINDS]."""

    words: tuple[str, ...]
    vectors: Tensor
    gap: int
    kinds: Tensor


def asked(question: str) -> Asked:
    """What ``question`` asks."""
    found = [(match.group(), match.start()) for match in _WORD.finditer(question)]
    found = [(word, start) for word, start in found if len(letters_of(word)) > 2]
    words = tuple(word for word, _ in found)
    kinds = torch.zeros(len(KINDS))
    gap = len(words)
    for number, (_, pattern) in enumerate(_ASKS):
        match = re.search(pattern, question, re.IGNORECASE)
        if match is not None:
            kinds[number] = 1
            gap = sum(start < match.start() for _, start in found)
            break
    kinds[KINDS.index("label")] = float(_LABEL.search(question) is not None)
    kinds[KINDS.index("other")] = float(not kinds[:-1].any())
    return Asked(words, text_vectors(words), gap, kinds)


def slots(asked_words: Asked, offsets: Sequence[int]) -> list[int]:
    """The words at ``offsets`` from the gap, and counted from the end the last two; -1 where there's none."""
    size = len(asked_words.words)
    places = [asked_words.gap + offset for offset in offsets] + [size - 1, size - 2]
    return [place if 0 <= place < size else -1 for place in places]
