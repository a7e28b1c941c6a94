"""Texts and pictures as nano takes them: a token that says what it is, one a visual token, one a trigram."""

from collections.abc import Sequence

import torch

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.errors import InputError
from tilewright.train.batch import Row, Shapes
from tilewright.train.contract import EncoderContract
from tilewright.train.nano_characters import LETTER_OF, class_of, trigrams_of

QUERY, TILE, TEXT, PICTURE = range(4)
TOKENS = ("query", "tile", "text", "picture")
SPECIALS = len(TOKENS)
"""The token of trigram 0; the tokens before are no trigrams."""
_SHOWN = (*range(0x250), *range(0x2010, 0x2060), *range(0xFB00, 0xFB07))  # code points that every Unicode knows


class TrigramRows:
    """See ``RowMaker``. A text is cut after ``max_text_tokens`` trigrams."""

    def __call__(self, contract: EncoderContract, instruction: str, texts: Sequence[str], shapes: Shapes) -> list[Row]:
        """See ``RowMaker``; raises InputError for a text without a letter or digit, too, unless it has a picture."""
        rows = []
        for row, text in enumerate(texts):
            height, width = shapes.get(row, (0, 0))
            trigrams = trigrams_of(text)[: contract.max_text_tokens]
            if not text and not height:
                raise InputError(f"text {row} of the batch is empty: wanted a text or a picture")
            if not len(trigrams) and not height:
                raise InputError(f"text {row} of the batch, {text[:80]!r}, has no letter and no digit")
            kind = QUERY if instruction == contract.query_instruction else TEXT if text else TILE
            ids = [kind, *[PICTURE] * (height * width), *(trigrams + SPECIALS).tolist()]
            rows.append((ids, torch.arange(len(ids)).expand(3, -1)))
        return rows


def fingerprint() -> str:
    """SHA-256 of the alphabet: special tokens, letters of classes, classes of characters, trigrams of a text."""
    probe = trigrams_of("Ünïcode  ﬁ 12\n\n x's").tolist()
    classes = [class_of(code_point) for code_point in _SHOWN]
    return digest_text(canonical_json([TOKENS, LETTER_OF.tolist(), classes, probe]))
