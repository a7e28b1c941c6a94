"""What deliveries say of themselves (citations, share of scaffold...) as figures of a row, with intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.metrics import as_json
from tilewright.eval.parts import Delivered, Question


def delivery_measures(
    delivered: Mapping[str, Delivered], questions: Sequence[Question], bootstrap: ClusterBootstrap
) -> dict[str, Any]:
    """{"delivery_measures": {name: mean a question with its interval}}; {} of deliveries that measure nothing.

    ``questions``: those of the bootstrap, in its order. One that wasn't delivered counts in no mean.
    """
    names = dict.fromkeys(name for one in delivered.values() for name in one.measures)
    if not names:
        return {}
    found = {}
    for name in names:
        values = [
            delivered[question.query_id].measures.get(name, np.nan) if question.query_id in delivered else np.nan
            for question in questions
        ]
        found[name] = as_json(bootstrap.mean(np.array(values, np.float64)))
    return {"delivery_measures": found}
