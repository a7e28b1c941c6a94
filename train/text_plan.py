"""The text warm-up: which text pairs make up a step, and the plan of a run that goes from texts to pictures."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import TextPair
from tilewright.train.batch_plan import PlannedBatch
from tilewright.train.dealing import Dealing, Members
from tilewright.train.read_columns import column_of
from tilewright.train.stable_hash import distinct_order, hashes_of


@dataclass(frozen=True)
class PlannedTexts:
    """One step's global batch of text pairs [Q]; the passages, all different, are the candidates."""

    step: int
    epoch: int
    pairs: tuple[TextPair, ...]


class Plan(Protocol):
    """Step number -> what it is made of."""

    def batch(self, step: int) -> PlannedBatch | PlannedTexts: ...


class TextPlan:
    """Batches of ``pairs`` (a table as ``read_text_pairs`` gives it): each pair once an epoch.

    No two queries of a batch share a passage; passages of one page may meet. Nothing depends on the order of the pairs.
    Raises InputError without pairs and for a pair_id that stands twice.
    """

    def __init__(self, pairs: pa.Table, *, batch_size: int, seed: int) -> None:
        if not len(pairs):
            raise InputError("no text pairs: wanted at least one")
        self.pairs = pairs
        pair_ids, passages = (column_of(pairs, name).cast(pa.large_string()) for name in ("pair_id", "passage"))
        hashes = hashes_of(pair_ids)
        order, repeats = distinct_order(pair_ids, hashes)
        if repeats:
            raise InputError(f"text pairs: {len(repeats)} pair ids occur more than once")
        group_hashes, groups = np.unique(hashes_of(pc.utf8_trim_whitespace(passages)), return_inverse=True)
        members = Members(hashes, order, groups.astype(np.int64), group_hashes)
        self._dealing = Dealing(members, batch_size=batch_size, seed=seed)

    @property
    def steps_per_epoch(self) -> int:
        """How many steps an epoch has."""
        return self._dealing.steps_per_epoch

    def batch(self, step: int) -> PlannedTexts:
        """The global batch of a step (counted from 0 over the whole run)."""
        epoch, rows = self._dealing.rows(step)
        return PlannedTexts(step, epoch, tuple(TextPair(**record) for record in self.pairs.take(rows).to_pylist()))


class WarmupPlan:
    """``texts`` for the first ``text_steps`` steps of a run, then ``images`` from its own step 0 on."""

    def __init__(self, texts: TextPlan, text_steps: int, images: Plan) -> None:
        self.texts, self.text_steps, self.images = texts, text_steps, images

    def batch(self, step: int) -> PlannedBatch | PlannedTexts:
        """The global batch of a step (counted from 0 over the whole run)."""
        return self.texts.batch(step) if step < self.text_steps else self.images.batch(step - self.text_steps)
