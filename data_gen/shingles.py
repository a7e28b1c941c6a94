"""Questions as w-shingles of normalised tokens (Broder 1997): what near duplicates of evaluation questions share."""

import re
import unicodedata

_APOSTROPHES = re.compile(r"(?<=\w)['\u2019\u02bc](?=\w)")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NO_BLANKS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_UNSPACED_RUN = re.compile(f"{_NO_BLANKS.pattern}+")
_IN_WORDS = "#"  # C# isn't C


class _Spacing(dict[int, str]):
    """str.translate table, filled as characters are met: marks become blanks, some characters words of their own."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if _NO_BLANKS.match(character) and category[0] == "L":
            spaced = f" {character}"
        elif category[0] in "LNM" or category in ("Sm", "Sc", "So") or character in _IN_WORDS:
            spaced = character
        else:
            spaced = " "
        self[code] = spaced
        return spaced


_SPACING = _Spacing()


def tokens(text: str) -> tuple[str, ...]:
    """The words of ``text``: compatibility forms joined (NFKC), case folded, without punctuation.

    A letter of a script that is written without blanks (Chinese, Japanese, Thai, ...) is a token by itself.
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return tuple(_THOUSANDS.sub("", _APOSTROPHES.sub("", text)).translate(_SPACING).split())


def split_unspaced(text: str) -> tuple[str, frozenset[str]]:
    """``text`` without its runs of letters of scripts written without blanks, and the pairs of neighbours in the runs.

    A run of one letter is itself. There are no words to compare in these scripts; neighbours tell questions apart.
    """
    found: set[str] = set()

    def pairs(run: re.Match[str]) -> str:
        found.update({run[0][i : i + 2] for i in range(max(1, len(run[0]) - 1))})
        return " "

    return _UNSPACED_RUN.sub(pairs, text), frozenset(found)


def shingles(text: str, width: int) -> frozenset[tuple[str, ...]]:
    """All runs of ``width`` tokens; of a shorter text all its tokens as one run, of one without tokens none."""
    found = tokens(text)
    if not found:
        return frozenset()
    return frozenset(found[i : i + width] for i in range(max(1, len(found) - width + 1)))
