"""The text of a whole corpus by page, to tell whether a question has one answer in it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.data_gen.grounded.terms import holds, key_terms, telling, terms
from tilewright.data_gen.records import QAPair, Tile


class CorpusText:
    """Which pages hold which terms, and the tiles of each page without their images."""

    def __init__(self, tiles: Iterable[Tile]) -> None:
        self._tiles: dict[str, list[Tile]] = defaultdict(list)
        self._texts: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        self._pages_of: dict[str, set[str]] = defaultdict(set)
        for tile in tiles:
            self._tiles[tile.page_id].append(tile)
            found = terms(tile.text)
            self._texts[tile.page_id].append(found)
            for term in {*found, *terms(tile.title)}:
                self._pages_of[term].add(tile.page_id)

    def pages_with(self, wanted: frozenset[str]) -> set[str]:
        """The pages whose texts (and titles) hold every one of ``wanted``."""
        found = sorted((self._pages_of.get(term, set()) for term in wanted), key=len)
        return set.intersection(*found) if found else set()

    def other_pages_with(self, pair: QAPair) -> list[str]:
        """Pages other than the pair's own whose text holds the query's key terms and one of its answers."""
        answers = [terms(answer) for answer in (pair.answer, *pair.aliases)]
        others = self.pages_with(key_terms(pair.query)) - {pair.page_id}
        return sorted(
            page for page in others if any(holds(text, answer) for text in self._texts[page] for answer in answers)
        )

    def contradicts(self, pair: QAPair, judge: GroundedJudge) -> bool:
        """Whether somewhere a statement of the same form holds the query's key terms, but none of its answers.

        For cells and infobox pairs: one whose label the query names; a sentence with both words says nothing of it.
        """
        answers: Sequence[str] = (pair.answer, *pair.aliases)
        asked, said = key_terms(pair.query), frozenset(terms(pair.query))
        for page in sorted(self.pages_with(asked) | {pair.page_id}):
            for tile in self._tiles[page]:
                for unit in judge.evidence(pair.query, answers, tile)[1]:
                    if _form(unit.source_type) == _form(pair.source_type) and telling(unit.label) <= said:
                        return True
        return False


def _form(source_type: str) -> str:
    """Sentences stand in paragraphs and in list items."""
    return "sentence" if source_type in ("paragraph", "list") else source_type
