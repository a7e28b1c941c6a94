"""What an agent searches with: a row's retriever and delivery, or an endpoint; it gives items or raises ItemError."""

import asyncio
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from tilewright.configs.items import ItemError
from tilewright.eval.parts import (
    DELIVERY_FAILED,
    RETRIEVAL_FAILED,
    Cost,
    Delivered,
    Delivery,
    Preparing,
    Question,
    Ranked,
    Retriever,
)


class Tool(Protocol):
    """Searches for one question at a time. ``identity``: equal tools find alike."""

    @property
    def identity(self) -> str: ...

    async def search(self, question: Question, query: str) -> Delivered:
        """What ``query`` finds, for ``question``. Raises ItemError if the search or the delivery fails."""
        ...

    def close(self) -> None:
        """Ends its threads."""
        ...


@dataclass(frozen=True)
class RowTool:
    """``retriever`` and ``delivery``, k items a search out of ``depth`` hits; ``worker`` runs them, one at a time.

    Retrievers and deliveries know nothing of threads: all searches of a run take place in one.
    """

    retriever: Retriever
    delivery: Delivery
    k: int
    depth: int
    cost: Cost
    worker: ThreadPoolExecutor

    @property
    def identity(self) -> str:
        """See ``row_identity``."""
        return row_identity(self.retriever, self.delivery, self.k, self.depth)

    async def search(self, question: Question, query: str) -> Delivered:
        """In the worker's thread."""
        return await asyncio.get_running_loop().run_in_executor(self.worker, self.found, question, query)

    def found(self, question: Question, query: str) -> Delivered:
        """What the row delivers for ``query`` in place of the question's own words; a failed search is an error."""
        asked = replace(question, query=query, picture=b"")
        found = self.retriever.search([asked], max(self.depth, self.k))
        if asked.query_id in found.errors:
            raise ItemError(f"{RETRIEVAL_FAILED}: {found.errors[asked.query_id]}")
        return self._delivered(asked, Ranked(self.retriever, found.hits[asked.query_id]))

    def _delivered(self, asked: Question, ranked: Ranked) -> Delivered:
        try:
            if isinstance(self.delivery, Preparing):
                self.delivery.prepare(list(ranked[: self.k]))
            return self.delivery.deliver(asked, ranked, self.k, self.cost)
        except ItemError as error:
            raise ItemError(f"{DELIVERY_FAILED}: {error}") from error

    def close(self) -> None:
        """Ends the worker."""
        self.worker.shutdown(cancel_futures=True)


def row_identity(retriever: Retriever, delivery: Delivery, k: int, depth: int) -> str:
    """What determines the results of a row's searches."""
    return f"{retriever.identity}/{delivery.identity}/{k}/{max(depth, k)}"


@dataclass(frozen=True)
class DrawnTool:
    """For a dry run: nothing is searched, ``k`` items drawn by the query stand for what would be found."""

    row: RowTool
    names: Sequence[str]

    @property
    def identity(self) -> str:
        """The row's."""
        return self.row.identity

    async def search(self, question: Question, query: str) -> Delivered:
        """Items that cost on average what hits do."""
        drawn = random.Random(query).sample(self.names, min(self.row.k, len(self.names)))
        return Delivered(tuple(self.row.retriever.item(name) for name in drawn))

    def close(self) -> None:
        """Ends the row's worker."""
        self.row.close()


def one_thread() -> ThreadPoolExecutor:
    """A worker that computes with as many torch threads as the caller."""
    return ThreadPoolExecutor(1, "agent_search", torch.set_num_threads, (torch.get_num_threads(),))
