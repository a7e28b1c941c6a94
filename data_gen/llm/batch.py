"""Calls gathered into batches of the Batch API: cheaper, slower, the same replies.

A batch is on record in the cache from before it is sent until its results are stored, so a killed run finds it again
and pays for nothing twice.
"""

import asyncio
import functools
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tilewright.configs.stage import StageError
from tilewright.data_gen.llm.batch_files import ENDPOINT, read_results, request_line
from tilewright.data_gen.llm.batch_queue import Items, Waiting, fail, first_batch, hand_on
from tilewright.data_gen.llm.cache import StoredBatch
from tilewright.data_gen.llm.calls import Call
from tilewright.data_gen.llm.connections import open_client
from tilewright.data_gen.llm.failures import Failure, ServerFailingError, backoff_s, failure_of, scrub, stop_message
from tilewright.data_gen.llm.request import Reply
from tilewright.data_gen.llm.transport import Office, asked_until_answered

R = TypeVar("R")
_MARK = "tilewright"  # our token's name in a batch's metadata
_TICK_S = 0.05
_QUIET_S = 2.0  # a batch goes out when no request has joined for so long, whatever the items are busy with
_DONE = ("completed", "failed", "expired", "cancelled")


class BatchTransport:
    """Sends a batch when it is full, or when all items at work wait and none can start."""

    def __init__(self, office: Office, items: Items) -> None:
        self._office, self._settings, self._items = office, office.settings, items
        self._openai = open_client(office.settings, office.key, 16)
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
            found = batch if batch.batch is not None else await self._find(batch)
            if found is None:  # killed before the server had it
                self._office.cache.forget_batch(batch.token)
                self._settle(dict.fromkeys(batch.digests, Failure("unsent", "killed before it was sent")))
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

    async def _find(self, batch: StoredBatch) -> StoredBatch | None:
        """The batch with our token among the server's, if it got that far."""

        identifier = await self._call(functools.partial(self._search, batch.token))
        if identifier is None:
            return None
        found = StoredBatch(batch.token, identifier, batch.digests)
        self._office.cache.put_batch(self._settings.base_url, found)
        return found

    async def _search(self, token: str) -> str | None:
        async for listed in self._openai.batches.list(limit=100):
            if (listed.metadata or {}).get(_MARK) == token:
                return str(listed.id)
        return None

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
        tried = False

        async def send() -> str:
            nonlocal tried
            listed = await self._search(token) if tried else None  # a lost answer may hide a batch that was made
            if listed is not None:
                return listed
            tried, content = True, b"".join(waiting.line for waiting in group)
            uploaded = await self._openai.files.create(file=(f"{token}.jsonl", content), purpose="batch")
            created = await self._openai.batches.create(
                input_file_id=uploaded.id,
                endpoint=ENDPOINT,
                completion_window=self._settings.batch.completion_window,
                metadata={_MARK: token},
            )
            return str(created.id)

        try:
            identifier = await self._call(send)
        except StageError as error:
            self._settle(dict.fromkeys(futures, Failure("unsent", str(error))))
            raise
        sent = StoredBatch(token, identifier, batch.digests)
        office.cache.put_batch(self._settings.base_url, sent)
        for waiting in group:
            waiting.line = b""
        self._follow(sent, futures)

    def _follow(self, batch: StoredBatch, futures: dict[str, asyncio.Future[Reply | Failure]]) -> None:
        """Wait for the batch in a task of its own; its outcomes, or its error, go to ``futures``."""

        def ended(task: asyncio.Task[dict[str, Reply | Failure]]) -> None:
            error = None if task.cancelled() else task.exception()
            for digest, future in futures.items():
                if future.done() or task.cancelled():
                    continue
                if error is not None:
                    fail([future], error)
                else:
                    future.set_result(task.result()[digest])

        self._spawn(self._results(batch)).add_done_callback(ended)

    async def _results(self, batch: StoredBatch) -> dict[str, Reply | Failure]:
        """Poll until the batch is done; store its replies, then forget it."""
        assert batch.batch is not None
        while True:
            state = await self._call(functools.partial(self._openai.batches.retrieve, batch.batch))
            if state.status in _DONE:
                break
            self._office.check_deadline()
            await asyncio.sleep(self._settings.batch.poll_s)
        names = [name for name in (state.output_file_id, state.error_file_id) if name]
        contents = [(await self._call(functools.partial(self._openai.files.content, name))).content for name in names]
        found = read_results(contents, frozenset(batch.digests), self._office.key)
        kind = "batch_missing" if state.status == "completed" else f"batch_{state.status}"
        missing = Failure(kind, f"batch {batch.batch} ({state.status}) has no result for it")
        if state.status == "failed" and not found:
            said = scrub(str(getattr(state.errors, "data", None)), self._office.key)
            missing = Failure("batch_failed", f"batch {batch.batch} failed: {said}", False, stop=ServerFailingError)
        outcomes = {digest: found.get(digest, missing) for digest in batch.digests}
        self._office.cache.put_all({digest: reply for digest, reply in outcomes.items() if isinstance(reply, Reply)})
        self._settle(outcomes)
        self._office.cache.forget_batch(batch.token)
        return outcomes

    def _settle(self, outcomes: dict[str, Any]) -> None:
        """Note the ends of calls that the ledger has open; a batch of another stage's isn't in it."""
        ledger = self._office.ledger
        for number, call in [(number, call) for number, call in ledger.open.items() if call.digest in outcomes]:
            outcome = outcomes[call.digest]
            if isinstance(outcome, Reply):
                ledger.end(number, outcome)
                self._office.heard()
            else:
                ledger.fail(number, outcome.kind, may_cost=outcome.may_cost)
            self._office.budget.release_inherited(number)

    async def _call(self, send: Callable[[], Awaitable[R]]) -> R:
        """What ``send`` gives, after retries; ServerFailingError (or what the failure says) when it fails for good."""
        import openai

        tries = 0
        while True:
            tries += 1
            try:
                return await send()
            except (openai.OpenAIError, TimeoutError) as error:
                failure = failure_of(error, self._office.key)
            if failure.stop is not None or not failure.retryable or tries > self._settings.max_retries:
                kind = failure.stop or ServerFailingError
                raise kind(f"Batch API at {stop_message(failure, self._settings)}")
            await asyncio.sleep(backoff_s(tries, failure.retry_after_s))

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
        await self._openai.close()
