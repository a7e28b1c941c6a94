"""Where sentences end: nupunkt (Punkt with a trained list of abbreviations), or a rule that needs no package."""

import re
from collections.abc import Callable
from importlib.metadata import version
from typing import Literal

from tilewright.eval.tools import require_module

SegmenterName = Literal["nupunkt", "rule"]
Spans = list[tuple[int, int]]
_RULE = re.compile(r"[.!?…。！？][\"'”’)\]]*(?:\s+(?=[\"'“‘(\[]*[A-Z0-9\u00c0-\uffff])|$)|(?<=[。！？])")
RULE_VERSION = 1
_SPACE = re.compile(r"\s")
_MAY_END = re.compile(r"[.!?…;:。！？]")


class Segmenter:
    """Cuts a text into sentences. ``identity``: what a document id names, for paths depend on it."""

    def __init__(self, name: SegmenterName) -> None:
        self.name: SegmenterName = name
        self._cut: Callable[[str], Spans]
        if name == "nupunkt":
            self._cut = require_module("nupunkt", "text").sent_spans
            self.identity = f"nupunkt {version('nupunkt')}"
        else:
            self._cut, self.identity = _by_rule, f"rule {RULE_VERSION}"

    def spans(self, text: str) -> Spans:
        """(start, end) of each sentence in order, which together are the text; the space behind one belongs to it.

        White space of any kind counts as a blank. A blank text has none.
        """
        if not text.strip():
            return []
        if _MAY_END.search(text) is None:
            return [(0, len(text))]
        plain = _SPACE.sub(" ", text)
        found = [start for start, end in self._cut(plain) if plain[start:end].strip()]
        starts = [0, *(start for start in found[1:] if start > 0)]
        return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _by_rule(text: str) -> Spans:
    """A mark that ends sentences, then a blank and what may begin one."""
    ends = sorted({match.end() for match in _RULE.finditer(text) if 0 < match.end() < len(text)})
    return list(zip([0, *ends], [*ends, len(text)], strict=True))
