"""The offline judge: does a tile's own text answer a query with a known answer?"""

from collections.abc import Sequence

from tilewright.data_gen.grounded.terms import key_terms, terms
from tilewright.data_gen.grounded.units import AnalysisCache, Unit
from tilewright.data_gen.records import Tile
from tilewright.data_gen.verdicts import Verdict


class GroundedJudge:
    """CORRECT only if an answer and all key terms of the query stand in one sentence, row or infobox pair of the tile.

    That the answer's string occurs somewhere isn't enough: it would make every ``1965`` a positive. What a row leaves
    to its surroundings counts as part of it: its column's label, caption, section and the page's title. Takes apart
    each tile once. ``name`` is name and version for manifests.
    """

    name = "grounded/1"

    def __init__(self) -> None:
        self._analyse = AnalysisCache()

    def judge(self, query: str, answers: Sequence[str], tile: Tile) -> Verdict:
        """CORRECT; WRONG if a unit holds the key terms but no answer; CANNOT_ANSWER if no unit holds the key terms."""
        with_answer, without = self.evidence(query, answers, tile)
        if with_answer:
            return Verdict.CORRECT
        return Verdict.WRONG if without else Verdict.CANNOT_ANSWER

    def evidence(self, query: str, answers: Sequence[str], tile: Tile) -> tuple[list[Unit], list[Unit]]:
        """The tile's units that hold all key terms of the query: those that state an answer, and those that don't."""
        wanted = key_terms(query)
        if not wanted:
            return [], []
        wanted_answers = [terms(answer) for answer in ((answers,) if isinstance(answers, str) else answers)]
        with_answer: list[Unit] = []
        without: list[Unit] = []
        for unit in self._analyse(tile).about(wanted):
            (with_answer if unit.states(wanted_answers) else without).append(unit)
        return with_answer, without
