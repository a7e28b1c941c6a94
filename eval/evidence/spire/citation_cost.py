"""What label filters and a judge of citations would be asked and cost, found out without a call."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tilewright.configs.stage import DryRunError
from tilewright.data_gen.llm import LlmSettings
from tilewright.eval.evidence.spire.citing import Citer, Citing
from tilewright.eval.evidence.spire.helpful_judge import citations_to_judge, judge
from tilewright.eval.evidence.spire.labellers import Asked, Chosen, LexicalLabeller, ModelLabeller
from tilewright.eval.evidence.spire.systems import SystemOptions
from tilewright.eval.parts import Question


class _Rehearsal(LexicalLabeller):
    """Chooses by shared words and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def choose(self, asked: Sequence[Asked], out: Path) -> list[Chosen]:
        """As LexicalLabeller."""
        self.asked += asked
        return super().choose(asked, out)


def report_cost(
    systems: Mapping[str, SystemOptions],
    citer: Citer,
    questions: Sequence[Question],
    llm: LlmSettings | None,
    out: Path,
) -> None:
    """Raise DryRunError with the calls of each system's label filter, and of the judge for all citations.

    Everything is searched and cited; shared words choose in place of a model, so that the judge's calls for a system
    with ``labels`` are an estimate.
    """
    lines, counts = list[str](), dict[str, Mapping[str, float]]()
    cited: list[Citing] = []
    for name, options in systems.items():
        rehearsal = None if options.labels is None else _Rehearsal()
        cited += (citing for _, citing in citer.run(name, options, questions, rehearsal))
        if options.labels is None or rehearsal is None:
            continue
        try:
            ModelLabeller(replace(options.labels, dry_run=True)).choose(list(dict.fromkeys(rehearsal.asked)), out)
        except DryRunError as error:
            lines.append(f"labels of {name}: {error}")
            counts |= {f"{name}/{purpose}": sums for purpose, sums in error.counts.items()}
    if llm is not None:
        try:
            judge(citations_to_judge(cited, questions), replace(llm, dry_run=True), out)
        except DryRunError as error:
            lines.append(f"judge, for the citations of all systems: {error}")
            counts |= {f"judge/{purpose}": sums for purpose, sums in error.counts.items()}
    raise DryRunError("\n".join(lines), counts)
