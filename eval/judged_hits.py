"""What a judge says of a retriever's hits, and evidence recall by it: is one of the first k items valid evidence?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.eval.bootstrap import Values


@dataclass(frozen=True)
class JudgedHits:
    """Verdicts on the first ``depth`` hits, in the order of ranks, down to the first hit that is evidence.

    ``held``: {query_id: of each hit looked at whether it is; None: there is no verdict}, of the questions that were
    judged. ``by`` names the judge. ``failed``, ``unparsed``: hits without a verdict, by why.
    """

    by: str
    depth: int
    held: Mapping[str, Sequence[bool | None]]
    failed: int = 0
    unparsed: int = 0

    def recall_at(self, query_ids: Sequence[str], k: int) -> Values:
        """[Q]: ``found_within`` the first ``k``; NaN for a question that wasn't judged."""
        found = (found_within(self.held[name], k) if name in self.held else np.nan for name in query_ids)
        return np.fromiter(found, np.float64, len(query_ids))

    @property
    def undecided(self) -> int:
        """Questions of which it isn't known whether one of the ``depth`` hits is evidence."""
        return sum(bool(np.isnan(found_within(held, self.depth))) for held in self.held.values())

    def counts(self) -> dict[str, Any]:
        """For metrics.json."""
        verdicts = sum(one is not None for held in self.held.values() for one in held)
        counts = {"n_questions": len(self.held), "n_undecided": self.undecided, "n_verdicts": verdicts}
        return {"by": self.by, "depth": self.depth} | counts | {"n_errors": self.failed, "n_unparsed": self.unparsed}


def found_within(held: Sequence[bool | None], k: int) -> float:
    """1 if one of the first ``k`` is evidence; else NaN if it isn't known of one of them, 0 if it is known of all.

    ``held`` may end at the first that is: what is below decides nothing.
    """
    first = held[:k]
    return 1.0 if True in first else np.nan if None in first else 0.0
