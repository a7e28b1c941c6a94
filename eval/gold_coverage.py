"""Which gold pages of questions are in a corpus: canonical URLs, widened by a table of redirects."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.data_gen.decontamination import gold_address, page_place


@dataclass(frozen=True)
class Redirects:
    """Where addresses lead: ``targets`` maps the place of an address (scheme and a slash at the end aside) to another.

    They widen what counts as found; a page's id never depends on them.
    """

    targets: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Redirects":
        """A JSON object {address: address it leads to}; chains are followed.

        Raises InputError for anything else, an address that leads to two, and a circle.
        """
        targets: dict[str, str] = {}
        try:
            table = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=list)
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: wanted a JSON object of addresses ({error})") from error
        if not isinstance(table, list) or not all(isinstance(entry, tuple) for entry in table):
            raise InputError(f"{path}: wanted a JSON object {{address: address}}, found {str(table)[:80]}")
        for source, target in table:
            cls._add(targets, source, target, str(path))
        redirects = cls(targets)
        for place in targets:
            redirects._follow(place, str(path))
        return redirects

    @staticmethod
    def _add(targets: dict[str, str], source: str, target: object, where: str) -> None:
        start = page_place(gold_address(source))
        end = page_place(gold_address(target)) if isinstance(target, str) else None
        if start is None or end is None:
            raise InputError(f"{where}: wanted absolute addresses, found {source!r}: {target!r}")
        if start != end and targets.setdefault(start, end) != end:
            raise InputError(f"{where}: {source} leads to two pages: {targets[start]} and {end}")

    def end_of(self, url: str) -> str | None:
        """The place that ``url`` leads to in the end; None for what is no absolute URL."""
        place = page_place(gold_address(url))
        return None if place is None else self._follow(place, "redirects")

    def _follow(self, place: str, where: str) -> str:
        seen = {place}
        while place in self.targets:
            place = self.targets[place]
            if place in seen:
                raise InputError(f"{where}: wanted redirects that end, found a circle through {place}")
            seen.add(place)
        return place


@dataclass(frozen=True)
class GoldCoverage:
    """``gold_pages``: {query_id: page_ids of the corpus, any of which counts as found}. ``outside``: (query_id, gold
    URL) of those that aren't in the corpus.

    A question of which no gold page is there can only be missed; one without gold URLs is out of recall by page.
    """

    gold_pages: Mapping[str, frozenset[str]]
    outside: tuple[tuple[str, str], ...]
    with_gold: int

    @property
    def counts(self) -> dict[str, int]:
        """For a manifest."""
        none_there = {query_id for query_id, _ in self.outside if not self.gold_pages[query_id]}
        return {
            "questions_with_gold_url": self.with_gold,
            "questions_without_gold_url": len(self.gold_pages) - self.with_gold,
            "questions_with_all_gold_outside_corpus": len(none_there),
            "questions_with_some_gold_outside_corpus": len({query_id for query_id, _ in self.outside} - none_there),
            "gold_urls_outside_corpus": len({url for _, url in self.outside}),
        }


def gold_coverage(
    gold_urls: Mapping[str, Iterable[str]], pages: Mapping[str, str], redirects: Redirects | None = None
) -> GoldCoverage:
    """``gold_urls``: {query_id: its gold URLs}; ``pages``: {page_id: URL} of the corpus."""
    redirects = Redirects() if redirects is None else redirects
    at: dict[str, set[str]] = {}
    for page_id, url in pages.items():
        end = redirects.end_of(url)
        if end is not None:
            at.setdefault(end, set()).add(page_id)
    found: dict[str, frozenset[str]] = {}
    outside: list[tuple[str, str]] = []
    with_gold = 0
    for query_id, urls in gold_urls.items():
        ends = {url: at.get(redirects.end_of(url) or "", set()) for url in urls}
        with_gold += bool(ends)
        found[query_id] = frozenset().union(*ends.values())
        outside += [(query_id, url) for url, there in ends.items() if not there]
    return GoldCoverage(found, tuple(outside), with_gold)
