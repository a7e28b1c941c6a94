"""Which rows make up a step: each once an epoch, members of one group never together; a pure function of the step.

An epoch has exactly ``ceil(rows / batch_size)`` steps of (nearly) equal size. A group with more members than an epoch
has steps gives each epoch as many as there are steps, its others come next.
"""

from dataclasses import dataclass

import numpy as np

from tilewright.train.stable_hash import Hashes, Rows, keys_of


@dataclass(frozen=True)
class Members:
    """What is dealt, N rows in G groups. ``hashes`` [N] and ``group_hashes`` [G] are of the ids; ``groups`` [N].

    ``order`` [N]: the rows in an order that depends on their ids alone, as the numbers of groups must; so nothing
    depends on the order of the rows.
    """

    hashes: Hashes
    order: Rows
    groups: Rows
    group_hashes: Hashes


class Dealing:
    """Deals rows to the steps of a run."""

    def __init__(self, members: Members, *, batch_size: int, seed: int) -> None:
        if batch_size < 1:
            raise ValueError(f"wanted batch_size >= 1, found {batch_size}")
        self.seed = seed
        self.steps_per_epoch = -(-len(members.hashes) // batch_size)
        self._order = members.order
        self._hashes, self._groups = members.hashes[members.order], members.groups[members.order]
        self._group_hashes = members.group_hashes
        self._sizes = np.bincount(self._groups, minlength=len(members.group_hashes))
        self._crowded = np.flatnonzero((self._sizes > self.steps_per_epoch)[self._groups])
        self._ring = self._ring_places()
        self._dealt: tuple[int, Rows] = (-1, self._order[:0])

    @property
    def waiting_per_epoch(self) -> int:
        """Rows that an epoch leaves to later ones, since their group has more members than an epoch has steps."""
        return int(np.maximum(self._sizes - self.steps_per_epoch, 0).sum())

    def rows(self, step: int) -> tuple[int, list[int]]:
        """(epoch, rows) of a step, counted from 0 over the whole run."""
        epoch, index = divmod(step, self.steps_per_epoch)
        dealt = self._dealt
        if dealt[0] != epoch:
            dealt = self._dealt = (epoch, self._deal(epoch))
        places = dealt[1][index :: self.steps_per_epoch]
        keys = keys_of(self._hashes[places], self.seed, epoch, "place in the batch")
        return epoch, self._order[places[np.argsort(keys, kind="stable")]].tolist()

    def _deal(self, epoch: int) -> Rows:
        """Places in the canonical order, group by group; step s of the epoch takes each ``steps_per_epoch``-th from s.

        Sorted by one number: above the rank of the group, below a key of the member, or for crowded groups the turn.
        """
        count = len(self._group_hashes)
        bits = np.uint64(max(1, (count - 1).bit_length()))
        ranks = np.empty(count, np.uint64)
        ranks[np.argsort(keys_of(self._group_hashes, self.seed, epoch, "group"), kind="stable")] = np.arange(count)
        low = keys_of(self._hashes, self.seed, epoch, "member") >> bits
        turns = (self._ring - epoch * self.steps_per_epoch) % self._sizes[self._groups[self._crowded]]
        low[self._crowded] = turns
        sequence = np.argsort((ranks[self._groups] << (np.uint64(64) - bits)) | low, kind="stable")
        waiting = np.zeros(len(low), np.bool_)
        waiting[self._crowded] = turns >= self.steps_per_epoch
        return sequence[~waiting[sequence]] if len(self._crowded) else sequence

    def _ring_places(self) -> Rows:
        """For each member of a crowded group its place in the group's ring."""
        keys = keys_of(self._hashes[self._crowded], self.seed, "ring")
        groups = self._groups[self._crowded]
        order = np.lexsort((keys, groups))
        found = np.empty(len(order), np.int64)
        starts = np.searchsorted(groups[order], groups[order])
        found[order] = np.arange(len(order)) - starts
        return found
