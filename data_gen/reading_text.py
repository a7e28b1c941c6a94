"""Sentences of words drawn by themselves, with the markup of running text: links, bold, italic, code, references."""

import re
from collections.abc import Sequence
from html import escape
from random import Random

from tilewright.data_gen.reading_words import ReadingWords

_TAG = re.compile(r"<[^>]*>")
_MARKS = {"a": 10, "b": 2, "i": 3, "code": 0.8, "small": 0.2, "sub": 0.1}
_MARKED = 0.09  # share of places in a sentence where markup begins
_BRACKETS = (("(", ")"), ("(", ")"), ("(", ")"), ("[", "]"), ('"', '"'), ('"', '"'), ("'", "'"), ("“", "”"), ("{", "}"))
_CELL_PADDING = 3.5  # characters
_ENDS = "........?!:;"
_PAUSES = (",", ",", ",", ",", ",", ";", ":", " -", " –")


def shown_length(markup: str) -> int:
    """Characters of text in ``markup``, about."""
    return len(_TAG.sub("", markup))


def longest_word(markup: str) -> int:
    """Characters of the longest run without a blank in the text of ``markup``."""
    return max(map(len, _TAG.sub("", markup).split()), default=0)


def is_tight(longest: Sequence[int], line_characters: int) -> bool:
    """Whether columns whose longest words are that long may be wider than a line, so that words must break."""
    return sum(1.3 * length + _CELL_PADDING for length in longest) > line_characters


class ReadingText:
    """Markup made of ``words``, drawn with ``random``."""

    def __init__(self, words: ReadingWords, random: Random) -> None:
        self._words = words
        self._random = random

    def plain(self, low: int, high: int) -> str:
        """``low`` to ``high`` tokens without markup, escaped."""
        return escape(" ".join(self._words.token(self._random) for _ in range(self._random.randint(low, high))), False)

    def title(self, low: int = 1, high: int = 4) -> str:
        """A title: names and capitalised words, now and then a number; escaped."""
        words, random = self._words, self._random
        kinds = (words.capitalised, words.capitalised, words.name, words.name, words.common, words.number)
        drawn = [random.choice(kinds)(random) for _ in range(random.randint(low, high))]
        drawn[0] = drawn[0][:1].upper() + drawn[0][1:]
        return escape(" ".join(drawn), False)

    def label(self) -> str:
        """The name of a field: one to three words, the first with a capital; escaped."""
        words, random = self._words, self._random
        drawn = [random.choice((words.word, words.common))(random) for _ in range(random.choice((1, 1, 2, 2, 3)))]
        return escape(" ".join(drawn).capitalize(), False)

    def value(self) -> str:
        """What a field or cell holds: a number, a name, a link, a few words."""
        words, random = self._words, self._random
        number, name = (escape(draw(random), False) for draw in (words.number, words.name))
        return random.choice(
            (number, number, f"{number} {self.reference()}", name, self.link(1, 2), self.link(1, 3), self.plain(1, 4))
        )

    def link(self, low: int, high: int) -> str:
        """A link of a few tokens."""
        return f'<a href="#">{self.title(low, high) if self._random.random() < 0.5 else self.plain(low, high)}</a>'

    def code(self, low: int, high: int) -> str:
        """``low`` to ``high`` pieces of a program, escaped."""
        words, random = self._words, self._random
        kinds = (words.code, words.code, words.code, words.word, words.number, words.identifier)
        drawn = [random.choice(kinds)(random) for _ in range(random.randint(low, high))]
        return escape(" ".join(drawn), False)

    def reference(self) -> str:
        """A raised number in brackets, as footnotes are referred to."""
        shown = self._random.choice(
            (str(self._random.randint(1, 199)), str(self._random.randint(1, 30)), "note 1", "a")
        )
        return f'<sup><a href="#">[{shown}]</a></sup>'

    def paragraph(self, characters: int) -> str:
        """Sentences of about that many characters in all."""
        sentences: list[str] = []
        length = 0
        while length < characters:
            sentences.append(self.sentence())
            length += shown_length(sentences[-1]) + 1
        return " ".join(sentences)

    def sentence(self) -> str:
        """Tokens with a capital at the start, pauses, brackets, markup and an end."""
        random = self._random
        left, parts = random.randint(4, 26), list[str]()
        while left > 0:
            count = min(left, random.randint(1, 3))
            left -= count
            part = self._marked(count) if random.random() < _MARKED else self.plain(count, count)
            if random.random() < 0.05:
                opening, closing = random.choice(_BRACKETS)
                part = f"{opening}{part}{closing}"
            if left and random.random() < 0.16:
                part += random.choice(_PAUSES)
            parts.append(part)
        first = parts[0]
        parts[0] = first[:1].upper() + first[1:]
        end = random.choice(_ENDS)
        return " ".join(parts) + end + (self.reference() if random.random() < 0.15 else "")

    def _marked(self, count: int) -> str:
        (tag,) = self._random.choices(list(_MARKS), list(_MARKS.values()))
        if tag == "a":
            return self.link(1, count)
        return f"<{tag}>{self.plain(1, count)}</{tag}>"
