"""Text on the device: a bank of words, numbers and codes, of which lines are drawn, and chance by one generator."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from tilewright.data_gen.reading_words import ReadingWords

_TOKENS_A_LINE = 40
_MARKS = ("", ",", ".", ";", ":", "?", "!")
_MARK_WEIGHTS = (78, 9, 8, 1.5, 2, 0.8, 0.7)
_AROUND = (("(", ")"), ('"', '"'), ("“", "”"), ("‘", "’"), ("[", "]"), ("'", "'"))


class Dice:
    """Chance on one device, all of it from one seed."""

    def __init__(self, device: torch.device, seed: int) -> None:
        self.device = device
        self._generator = torch.Generator(device).manual_seed(seed)

    def uniform(self, shape: tuple[int, ...], low: float = 0.0, high: float = 1.0) -> Tensor:
        """float32, from ``low`` to ``high``."""
        return torch.rand(shape, generator=self._generator, device=self.device) * (high - low) + low

    def chance(self, shape: tuple[int, ...], share: float) -> Tensor:
        """bool, True with probability ``share``."""
        return self.uniform(shape) < share

    def below(self, shape: tuple[int, ...], stop: int) -> Tensor:
        """int64, 0 to ``stop`` - 1."""
        return torch.randint(stop, shape, generator=self._generator, device=self.device)

    def choice(self, shape: tuple[int, ...], weights: Sequence[float]) -> Tensor:
        """int64, a place in ``weights``."""
        bounds = torch.tensor(weights, device=self.device).cumsum(0)
        return torch.searchsorted(bounds[:-1] / bounds[-1], self.uniform(shape), right=True)


@dataclass(frozen=True)
class TextBank:
    """T tokens as glyphs: ``glyphs`` uint8 [characters], ``starts`` and ``lengths`` int64 [T]."""

    glyphs: Tensor
    starts: Tensor
    lengths: Tensor

    def lines(self, dice: Dice, count: int, characters: int) -> Tensor:
        """int64 [count, characters] glyphs: tokens drawn one by one, a blank after each."""
        tokens = dice.below((count, _TOKENS_A_LINE), len(self.starts))
        ends = (self.lengths[tokens] + 1).cumsum(1)  # the place after each token's blank
        places = torch.arange(characters, device=dice.device).expand(count, -1).contiguous()
        number = torch.searchsorted(ends, places, right=True)
        filled = number < _TOKENS_A_LINE
        number = number.clamp(max=_TOKENS_A_LINE - 1)
        token = tokens.gather(1, number)
        inside = places - ends.gather(1, number) + self.lengths[token] + 1
        filled &= inside < self.lengths[token]
        source = torch.where(filled, self.starts[token] + inside, 0)
        return torch.where(filled, self.glyphs[source].long(), 0)


def make_tokens(words: ReadingWords, count: int, alphabet: str, seed: int) -> list[str]:
    """``count`` draws of ``words``, some with punctuation; those with other characters than ``alphabet``'s are left
    out."""
    random, known = Random(seed), set(alphabet)
    found: list[str] = []
    while len(found) < count:
        token = words.token(random)
        if random.random() < 0.04:
            before, after = random.choice(_AROUND)
            token = before + token + after
        token += random.choices(_MARKS, _MARK_WEIGHTS)[0]
        if known.issuperset(token):
            found.append(token)
    return found


def make_bank(tokens: Sequence[str], alphabet: str, device: torch.device) -> TextBank:
    """``tokens`` on the device; the glyph of a character is its place in ``alphabet``."""
    place = {character: number for number, character in enumerate(alphabet)}
    lengths = torch.tensor([len(token) for token in tokens])
    glyphs = torch.tensor([place[character] for token in tokens for character in token], dtype=torch.uint8)
    return TextBank(glyphs.to(device), (lengths.cumsum(0) - lengths).to(device), lengths.to(device))


def split_words(words: ReadingWords) -> tuple[ReadingWords, ReadingWords]:
    """(nine in ten, the tenth that is held out)."""
    lists = (words.words, words.names)
    kept = (tuple(word for number, word in enumerate(part) if number % 10) for part in lists)
    return ReadingWords(*kept), ReadingWords(*(part[::10] for part in lists))
