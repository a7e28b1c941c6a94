"""Tessera's block as a picture, drawn as tiles are, within the same budget."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tilewright.eval.evidence.packing import render
from tilewright.eval.evidence.tessera import ReaderContext
from tilewright.eval.evidence.units import Unit
from tilewright.eval.parts import Cost, Item
from tilewright.eval.rendered_text import MAX_HEIGHT_PX, RenderedTexts

PROBES = 4  # numbers of units whose pictures are drawn at a time


class BlockPictures:
    """Draws blocks. ``compression``: of the pictures."""

    def __init__(self, texts: RenderedTexts, compression: float) -> None:
        self._texts, self._compression = texts, compression

    def of(self, context: ReaderContext, block: Item, cost: Cost, *, grouped: bool) -> Item | None:
        """``block`` as a picture of at most the context's budget, with fewer of its units where not all fit.

        The worst by the reranker go first. None if not even the best fits. A picture as high as the renderer draws
        may be cut, so it doesn't count. Raises ItemError for a text that couldn't be drawn.
        """
        rank = {name: number for number, name in enumerate(context.candidates)}
        units = context.block.units
        best = sorted(units, key=lambda unit: rank.get(unit.unit_id, len(rank)))

        def fitting(counts: Sequence[int]) -> dict[int, Item]:
            """{count: picture} of the ``counts`` best units that fit; all are drawn with one browser."""
            texts = [render(_in_order(units, best[:count]), grouped=grouped) for count in counts]
            self._texts.draw(texts)
            pictures = [self._texts.picture(text, self._compression) for text in texts]
            items = [replace(block, text=text, picture=one) for text, one in zip(texts, pictures, strict=True)]
            fits = [
                one.size_px[1] < MAX_HEIGHT_PX and cost(item) <= context.budget
                for one, item in zip(pictures, items, strict=True)
            ]
            return {count: item for count, item, fit in zip(counts, items, fits, strict=True) if fit}

        return _largest(fitting, len(units))


def _largest(fitting: Callable[[Sequence[int]], dict[int, Item]], count: int) -> Item | None:
    """What ``fitting`` has for the largest number up to ``count``: pictures grow with the units that they show."""
    found = fitting([count])
    below, above = count if found else 0, count
    while above - below > 1:
        step = max(1, (above - below) // (PROBES + 1))
        probes = [below + step * number for number in range(1, PROBES + 1) if below + step * number < above]
        fits = fitting(probes)
        above = next((probe for probe in probes if probe not in fits), above)
        fits = {probe: item for probe, item in fits.items() if probe < above}
        found, below = (fits, max(fits)) if fits else (found, below)
    return found.get(below)


def _in_order(units: Sequence[Unit], chosen: Sequence[Unit]) -> list[Unit]:
    names = {unit.unit_id for unit in chosen}
    return [unit for unit in units if unit.unit_id in names]
