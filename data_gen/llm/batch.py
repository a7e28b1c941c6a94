"""Calls gathered into batches of the Batch API: cheaper, slower, the same replies.

A batch is on record in the cache from before it is sent until its results are stored, so a killed run finds it again
and pays for nothing twice.
"""

import asyncio
import functools
import uuid
from typing import Any

from tilewright.configs.stage import StageError
from tilewright.data_gen.llm.batch_desk import BatchDesk, Outcomes
from tilewright.data_gen.llm.batch_files import request_line
from tilewright.data_gen.llm.batch_queue import Items, Waiting, fail, first_batch, hand_on
from tilewright.data_gen.llm.cache import StoredBatch
from tilewright.data_gen.llm.calls import Call
from tilewright.data_gen.llm.failures import Failure
from tilewright.data_gen.llm.request import Reply
from tilewright.data_gen.llm.transport import Office, asked_until_answered

_TICK_S = 0.05
_QUIET_S = 2.0  # a batch goes out when no request has joined for so long, whatever the items are busy with


class BatchTransport:
    """Sends a batch when it is full, or when all items at work wait and none can start."""

    def __init__(self, office: Office, items: Items) -> None:
        self._office, self._settings, self._items = office, office.settings, items
        self._desk = BatchDesk(office)
        self._queue: list[Waiting] = []
        self._waiting = 0
        self._joined_at = 0.0
        self._adopted: dict[str, asyncio.Future[Reply | Failure]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._began: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self.sending: set[asyncio.Task[Any] | None] = set()  # nothing is lost when an item stops waiting

    async def reply(self, call: Call) -> Reply:
        """See Transport."""
        if self._began is None:
            self._began = self._spawn(self._begin())
        await asyncio.shield(self._began)
        return await asked_until_answered(self._office, call, self._outcome)

    async def _outcome(self, call: Call, with_schema: bool) -> Reply | Failure:
        adopted = self._adopted.get(call.digest)
        if adopted is not None:
            self._waiting += 1
            try:
                outcome = await asyncio.shield(adopted)
            finally:
                self._waiting -= 1
            if isinstance(outcome, Failure):
                self._adopted.pop(call.digest, None)
            return outcome
        self._office.check_deadline()
        most = await self._office.budget.reserve(call)
        waiting = Waiting(call, request_line(call, with_schema), most)
        self._queue.append(waiting)
        if self._watcher is not None and self._watcher.done():
            self._unwatched(self._watcher)
        self._joined_at = asyncio.get_running_loop().time()
        self._waiting += 1
        try:
            return await waiting.outcome
        finally:
            self._waiting -= 1
            if waiting.number is None:
                self._office.budget.unsent()
            self._office.budget.release(most)

    async def _begin(self) -> None:
        """Pick up the batches under way, then watch the queue."""
        for batch in self._office.cache.batches(self._settings.base_url):
            found = await self._desk.find(batch)
            if found is None:
                continue
            loop = asyncio.get_running_loop()
            futures = {digest: loop.create_future() for digest in found.digests}
            self._adopted |= futures
            self._follow(found, futures)
        self._watcher = self._spawn(self._watch())
        self._watcher.add_done_callback(self._unwatched)

    def _unwatched(self, watcher: asyncio.Task[None]) -> None:
        """Whoever waits in the queue gets the error that ended the watch."""
        error = None if watcher.cancelled() else watcher.exception()
        for waiting in self._queue if error is not None else ():
            fail([waiting.outcome], error)

    async def _watch(self) -> None:
        """Send what is in the queue whenever it is time."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK_S)
            self._queue = [waiting for waiting in self._queue if not waiting.outcome.done()]
            if not self._queue:
                continue
            all_wait = not self._items.can_start and self._waiting >= self._items.active
            limits = self._settings.batch
            fitting = first_batch(self._queue, limits)
            full = fitting == limits.size or fitting < len(self._queue)
            if full or all_wait or loop.time() - self._joined_at > _QUIET_S:
                while self._queue:
                    group = self._queue[: first_batch(self._queue, limits)]
                    self._queue = self._queue[len(group) :]
                    self._spawn(self._send(group)).add_done_callback(functools.partial(hand_on, group))

    async def _send(self, group: list[Waiting]) -> None:
        """Record the batch, send it, and follow it."""
        token, office = uuid.uuid4().hex, self._office
        batch = StoredBatch(token, None, tuple(waiting.call.digest for waiting in group))
        office.cache.put_batch(self._settings.base_url, batch)
        for waiting in group:
            call = waiting.call
            waiting.number = office.ledger.start(call.purpose, call.digest, *waiting.most)
            office.budget.unsent()
        futures = {waiting.call.digest: waiting.outcome for waiting in group}
        try:
            identifier = await self._desk.send(token, b"".join(waiting.line for waiting in group))
        except StageError as error:
            self._desk.settle(dict.fromkeys(futures, Failure("unsent", str(error))))
            raise
        sent = StoredBatch(token, identifier, batch.digests)
        office.cache.put_batch(self._settings.base_url, sent)
        for waiting in group:
            waiting.line = b""
        self._follow(sent, futures)

    def _follow(self, batch: StoredBatch, futures: dict[str, asyncio.Future[Reply | Failure]]) -> None:
        """Wait for the batch in a task of its own; its outcomes, or its error, go to ``futures``."""

        def ended(task: asyncio.Task[Outcomes]) -> None:
            error = None if task.cancelled() else task.exception()
            for digest, future in futures.items():
                if future.done() or task.cancelled():
                    continue
                if error is not None:
                    fail([future], error)
                else:
                    future.set_result(task.result()[digest])

        self._spawn(self._results(batch)).add_done_callback(ended)

    async def _results(self, batch: StoredBatch) -> Outcomes:
        """Ask until the batch is done."""
        while isinstance(found := await self._desk.results(batch), str):
            self._office.check_deadline()
            await asyncio.sleep(self._settings.batch.poll_s)
        return found

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """See Transport. Batches under way stay on record for the next run."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._desk.close()
