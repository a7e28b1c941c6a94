"""Tessera's block as a picture, drawn as tiles are, within the same budget."""

from collections.abc import Sequence
from dataclasses import replace

from tilewright.eval.evidence.packing import render
from tilewright.eval.evidence.tessera import ReaderContext
from tilewright.eval.evidence.units import Unit
from tilewright.eval.parts import Cost, Item
from tilewright.eval.rendered_text import MAX_HEIGHT_PX, RenderedTexts


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
        everything = self._fitting([units], context, block, cost, grouped)
        fewer = [_in_order(units, best[:count]) for count in range(len(best) - 1, 0, -1)]
        return everything or self._fitting(fewer, context, block, cost, grouped)

    def _fitting(
        self, choices: Sequence[Sequence[Unit]], context: ReaderContext, block: Item, cost: Cost, grouped: bool
    ) -> Item | None:
        """The first of ``choices`` whose picture fits; all are drawn with one browser."""
        texts = [render(units, grouped=grouped) for units in choices]
        self._texts.draw(texts)
        for text in texts:
            item = replace(block, text=text, picture=self._texts.picture(text, self._compression))
            if item.picture and item.picture.size_px[1] < MAX_HEIGHT_PX and cost(item) <= context.budget:
                return item
        return None


def _in_order(units: Sequence[Unit], chosen: Sequence[Unit]) -> list[Unit]:
    names = {unit.unit_id for unit in chosen}
    return [unit for unit in units if unit.unit_id in names]
