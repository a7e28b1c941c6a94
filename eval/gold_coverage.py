"""Which gold pages of questions are in a corpus: canonical URLs, widened by a table of redirects."""

import csv
from collections.abc import Iterable, Mapping, Sequence
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
        """Two columns of absolute URLs parted by a tab, from and to, no header; chains are followed.

        Raises InputError, with file and line, for anything else, an address that leads to two, and a circle.
        """
        targets: dict[str, str] = {}
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                for number, row in enumerate(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), start=1):
                    cls._add(targets, row, f"{path}:{number}")
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{path}: wanted a table of redirects ({error})") from error
        redirects = cls(targets)
        for place in targets:
            redirects._follow(place, str(path))
        return redirects

    @staticmethod
    def _add(targets: dict[str, str], row: Sequence[str], where: str) -> None:
        places = [page_place(gold_address(url)) for url in row]
        if len(row) != 2 or places[0] is None or places[1] is None:
            raise InputError(f"{where}: wanted two absolute URLs parted by a tab, found {row}")
        if places[0] != places[1] and targets.setdefault(places[0], places[1]) != places[1]:
            raise InputError(f"{where}: {row[0]} leads to two pages: {targets[places[0]]} and {places[1]}")

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
