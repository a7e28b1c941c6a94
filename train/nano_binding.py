"""Letters bound to one vector: trigrams as products of fixed random signs, summed (a holographic bag of trigrams).

The product of three ±1 vectors is a ±1 vector nearly orthogonal to every other trigram's, so a sum of such products
holds a bag of trigrams that dot products compare (Plate, "Holographic Reduced Representations", 1995; Kanerva, 2009).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tilewright.train.nano_characters import BOUNDARY, LETTER_OF, LETTERS, TRIGRAMS
from tilewright.train.nano_neighbours import heard

SILENT = 0.05  # a cell that is blank or punctuation with more than 1 - SILENT adds nothing
MANY_CELLS = 700  # of a picture, from which on a table of all trigrams costs less than a vector a cell
AT_ONCE = 512  # cells added to such a table, so that what is made of them stays in the processor's cache


class Binding(nn.Module):
    """Cells and texts -> vectors [., D]. ``signs`` [3, LETTERS, D] and ``weights`` [TRIGRAMS] are stored, not trained.

    ``weights``: what a trigram counts for in a query, its inverse document frequency.
    """

    signs: Tensor
    weights: Tensor

    def __init__(self, dimension: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randint(0, 2, (3, LETTERS, dimension), generator=generator)
        self.register_buffer("signs", (2 * drawn - 1).to(torch.int8))
        self.register_buffer("weights", torch.ones(TRIGRAMS))

    def of_trigrams(self, trigrams: Tensor, values: Tensor, owners: Tensor, count: int) -> Tensor:
        """[count, D]: the sum of ``values`` [N] times the vectors of ``trigrams`` [N], by ``owners`` [N]."""
        before, letter, after = trigrams // LETTERS**2, trigrams // LETTERS % LETTERS, trigrams % LETTERS
        signs = self.signs.to(values.dtype)
        bound = signs[0][before] * signs[1][letter] * signs[2][after]
        return torch.zeros(count, signs.shape[-1], device=bound.device, dtype=values.dtype).index_add(
            0, owners, bound * values[:, None]
        )

    def of_queries(self, trigrams: Tensor, owners: Tensor, count: int) -> Tensor:
        """[count, D] of queries: each occurrence counts with its trigram's weight."""
        return self.of_trigrams(trigrams, self.weights[trigrams].float(), owners, count)

    def of_texts(self, trigrams: Tensor, owners: Tensor, count: int) -> Tensor:
        """[count, D] of texts as tiles have them: a trigram that stands n times in a text counts sqrt(n)."""
        found, counts = torch.unique(owners * TRIGRAMS + trigrams, return_counts=True)
        return self.of_trigrams(found % TRIGRAMS, counts.float().sqrt(), found // TRIGRAMS, count)

    def of_cells(
        self, characters: Tensor, before: Tensor, after: Tensor, owners: Tensor, count: int, *, places: Tensor
    ) -> Tensor:
        """[count, D] of what cells are read as, once neighbours in a word have heard each other.

        ``characters``, ``before``, ``after``: logits [N, CLASSES] of a cell's character and of those around it in its
        word; ``owners`` [N]: the picture that a cell belongs to; ``places`` [N]: where it stands, see
        ``nano_neighbours``. A cell counts by its probability to hold a letter or a digit; one of n cells read as the
        same trigram of the same picture counts 1 / sqrt(n), which has no gradient.
        """
        fold = _fold(characters)
        letters = characters.softmax(-1) @ fold
        kept = (1 - letters[:, BOUNDARY].detach() > SILENT).nonzero()[:, 0]
        first, last = (logits[kept].softmax(-1) @ fold for logits in (before, after))
        letters, first, last = heard(letters[kept], first, last, places[kept])
        owners = owners[kept]
        with torch.no_grad():
            read = [part.argmax(-1) for part in (first, letters, last)]
            damping = _damping((read[0] * LETTERS + read[1]) * LETTERS + read[2], owners)
        parts = (first, letters * damping[:, None], last)
        if len(kept) >= MANY_CELLS * count:
            mine = [(owners == owner).nonzero()[:, 0] for owner in range(count)]
            return torch.stack([self._of_table(*(part[cells] for part in parts)) for cells in mine])
        signs = self.signs.to(letters.dtype)
        bound = (parts[0] @ signs[0]) * (parts[1] @ signs[1]) * (parts[2] @ signs[2])
        return torch.zeros(count, signs.shape[-1], device=bound.device, dtype=bound.dtype).index_add(0, owners, bound)

    def _of_table(self, before: Tensor, letters: Tensor, after: Tensor) -> Tensor:
        """[D] of one picture's cells [N, LETTERS]: a table of what they all say of each trigram, then its vector."""
        table = before.new_zeros(LETTERS, LETTERS**2)
        for start in range(0, len(before), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            table = table + after[some].T @ (before[some, :, None] * letters[some, None, :]).flatten(1)
        signs = self.signs.to(table.dtype)
        bound = (table.T @ signs[2]).view(LETTERS, LETTERS, -1)  # before, letter, D
        return ((bound * signs[1]).sum(1) * signs[0]).sum(0)


def _fold(like: Tensor) -> Tensor:
    """[CLASSES, LETTERS]: one where a class is a letter. No buffer: from_pretrained leaves those unfilled."""
    return F.one_hot(torch.from_numpy(LETTER_OF), LETTERS).to(like)


def _damping(trigrams: Tensor, owners: Tensor) -> Tensor:
    """float32 [N]: 1 / sqrt(how often the trigram occurs among those of its owner)."""
    _, inverse, counts = torch.unique(owners * TRIGRAMS + trigrams, return_inverse=True, return_counts=True)
    damping: Tensor = counts[inverse].float().rsqrt()
    return damping
