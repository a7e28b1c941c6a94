"""The question browser's values, each hit and each text once, cut until they fit the report."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from tilewright.eval.report.data import as_script

Cut = tuple[int | None, int | None]  # characters of a text, hits of a question
CUTS: tuple[Cut, ...] = (
    (None, None),
    (2_000, None),
    (500, None),
    (100, None),
    (100, 3),
    (40, 1),
)
RIGHT = ("", "page", "tile")


def fitted(data: Mapping[str, Any], whole: Collection[str], budget_bytes: int) -> dict[str, Any]:
    """``data`` of ``browser_data`` in the form report.js reads, within ``budget_bytes`` as JSON.

    ``items`` holds every hit's {id, page, text} once and ``given`` every item a reader was given; a question's hits are
    [place in items, score, place in RIGHT, holds] and its ``given`` are places. If that is too large, texts are cut to
    the first length of CUTS that fits, then hits to its number; those of questions named in ``whole`` last. ``cut`` and
    ``cut_whole`` say which: [characters or null, hits or null], of the others and of these. Beyond the last of CUTS the
    budget is exceeded rather than a question left out.
    """
    compact: dict[str, Any] = {}
    for cut, cut_whole in [*((cut, CUTS[0]) for cut in CUTS), *((CUTS[-1], cut) for cut in CUTS[1:])]:
        compact = _compact(data, whole, cut, cut_whole)
        if len(as_script(compact).encode()) <= budget_bytes:
            break
    return compact


@dataclasses.dataclass(slots=True)
class _Once:
    """Values in the order of their first use; ``place`` of each."""

    values: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    places: dict[tuple[Any, ...], int] = dataclasses.field(default_factory=dict)

    def place(self, value: dict[str, Any]) -> int:
        key = tuple((name, tuple(part) if isinstance(part, list) else part) for name, part in sorted(value.items()))
        if key not in self.places:
            self.places[key] = len(self.values)
            self.values.append(value)
        return self.places[key]


def _compact(data: Mapping[str, Any], whole: Collection[str], cut: Cut, cut_whole: Cut) -> dict[str, Any]:
    items, given, questions = _Once(), _Once(), []
    for question in data["questions"]:
        kept = cut_whole if question["id"] in whole else cut
        found = {name: _found(one, items, *kept) for name, one in question["found"].items()}
        said = {name: _said(one, given, kept[0]) for name, one in question["said"].items()}
        questions.append({**question, "found": found, "said": said})
    cuts = {"cut": list(cut), "cut_whole": list(cut_whole)}
    return {**data, "questions": questions, "items": items.values, "given": given.values, **cuts}


def _found(found: Mapping[str, Any], items: _Once, characters: int | None, hits: int | None) -> dict[str, Any]:
    if "hits" not in found:
        return dict(found)
    placed = []
    for hit in found["hits"][:hits]:
        item = {"id": hit["id"], "page": hit["page"], "text": _shortened(hit["text"], characters)}
        placed.append([items.place(item), hit["score"], RIGHT.index(hit["right"]), int(hit["holds"])])
    return {**found, "hits": placed}


def _said(said: Mapping[str, Any], given: _Once, characters: int | None) -> dict[str, Any]:
    places = [given.place({**item, "text": _shortened(item["text"], characters)}) for item in said["given"]]
    return {**said, "said": _shortened(said["said"], characters), "given": places}


def _shortened(text: str, characters: int | None) -> str:
    return text if characters is None or len(text) <= characters else text[:characters] + "…"
