"""What the grounded annotator asks for: kinds of evidence, difficulty, and how often the page's title is named."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tilewright.configs.bounds import check_bounds

KINDS = ("infobox", "list", "paragraph", "table")
Kind = Literal["infobox", "list", "paragraph", "table"]


@dataclass(frozen=True)
class GroundedSettings:
    """Which of its questions the annotator keeps; the rest are counted by reason. The defaults keep all.

    ``kinds``: of evidence to ask about. ``max_per_kind``: {kind: most questions of a tile}.
    ``difficulty``: ``easy`` (an infobox pair, or a sentence of at most ``easy_words`` words, and the query names the
    page's title), ``hard`` (the query doesn't name the title, or takes a row and a column to answer; rows with a name
    of their own are asked for without the title), or ``any``.
    ``title_free_share``: of a tile's questions, those whose query doesn't name the title; more of the other sort than
    that allows are left out, by digest, so a tile without any of one sort gives none of the other (unless the share is
    0 or 1). It holds over all tiles before the filters; they drop more questions without a title than with one.
    """

    kinds: tuple[Kind, ...] = ("infobox", "list", "paragraph", "table")
    max_per_kind: dict[str, int] = field(default_factory=dict)
    difficulty: Literal["any", "easy", "hard"] = "any"
    easy_words: int = 20
    title_free_share: float | None = None

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "easy_words")
        check_bounds(self, 0, 1, "title_free_share")
        if not self.kinds or len(set(self.kinds)) < len(self.kinds) or not set(self.kinds) <= set(KINDS):
            raise ValueError(f"kinds: wanted at least one of {list(KINDS)}, none twice, found {list(self.kinds)}")
        _check_caps(self.max_per_kind)


def _check_caps(caps: Mapping[str, int]) -> None:
    for kind, most in caps.items():
        if kind not in KINDS or most < 0:
            raise ValueError(f"max_per_kind: wanted numbers >= 0 for some of {list(KINDS)}, found {kind}: {most}")
