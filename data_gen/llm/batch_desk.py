"""Batches as the server keeps them: found again, looked at, their results stored once and noted in the ledger."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from tilewright.data_gen.llm.batch_files import ENDPOINT, read_results
from tilewright.data_gen.llm.cache import StoredBatch
from tilewright.data_gen.llm.connections import open_client
from tilewright.data_gen.llm.failures import (
    BodyError,
    Failure,
    ModelUnknownError,
    ServerFailingError,
    backoff_s,
    failure_of,
    scrub,
    stop_message,
)
from tilewright.data_gen.llm.request import Reply
from tilewright.data_gen.llm.transport import Office

R = TypeVar("R")
Outcomes = dict[str, Reply | Failure]
_MARK = "tilewright"  # our token's name in a batch's metadata
_DONE = ("completed", "failed", "expired", "cancelled")


class BatchDesk:
    """The Batch API of the office's server. Its methods raise StageError if the server fails for good."""

    def __init__(self, office: Office) -> None:
        self._office, self._settings = office, office.settings
        limit = office.settings.batch.max_result_bytes, "llm.batch.max_result_bytes"
        self._openai = open_client(office.settings, office.key, 16, limit)

    async def send(self, token: str, content: bytes) -> str:
        """The id of a new batch of these request lines; never two for one token."""
        tried = False

        async def send() -> str:
            nonlocal tried
            listed = await self._search(token) if tried else None  # a lost answer may hide a batch that was made
            if listed is not None:
                return listed
            tried = True
            uploaded = await self._openai.files.create(file=(f"{token}.jsonl", content), purpose="batch")
            created = await self._openai.batches.create(
                input_file_id=uploaded.id,
                endpoint=ENDPOINT,
                completion_window=self._settings.batch.completion_window,
                metadata={_MARK: token},
            )
            return str(created.id)

        return await self._call(send)

    async def find(self, batch: StoredBatch) -> StoredBatch | None:
        """A batch on record with its id; None if it was never sent: it's then off the record, its calls have failed."""
        if batch.batch is not None:
            return batch
        identifier = await self._call(functools.partial(self._search, batch.token))
        if identifier is None:  # killed before the server had it
            self._office.cache.forget_batch(batch.token)
            self.settle(dict.fromkeys(batch.digests, Failure("unsent", "killed before it was sent")))
            return None
        found = StoredBatch(batch.token, identifier, batch.digests)
        self._office.cache.put_batch(self._settings.base_url, found)
        return found

    async def _search(self, token: str) -> str | None:
        """The id of the batch with our token among the server's."""
        async for listed in self._openai.batches.list(limit=100):
            if (listed.metadata or {}).get(_MARK) == token:
                return str(listed.id)
        return None

    async def results(self, batch: StoredBatch) -> Outcomes | str:
        """{digest: what came} of a batch that is over, which is then off the record; of another its state in a word.

        A batch that the server has lost (it restarted, or its files were deleted) is over without results.
        """
        try:
            return await self._results(batch)
        except ModelUnknownError:  # 404
            await self._call(functools.partial(self._search, batch.token))  # raises if there is no Batch API at all
            lost = Failure("batch_lost", f"the server has batch {batch.batch} or its files no more", may_cost=True)
            return self._closed(batch, dict.fromkeys(batch.digests, lost))

    async def _results(self, batch: StoredBatch) -> Outcomes | str:
        assert batch.batch is not None
        state = await self._call(functools.partial(self._openai.batches.retrieve, batch.batch))
        if state.status not in _DONE:
            return str(state.status)
        names = [name for name in (state.output_file_id, state.error_file_id) if name]
        contents = [(await self._call(functools.partial(self._openai.files.content, name))).content for name in names]
        found = read_results(contents, frozenset(batch.digests), self._office.key)
        kind = "batch_missing" if state.status == "completed" else f"batch_{state.status}"
        missing = Failure(kind, f"batch {batch.batch} ({state.status}) has no result for it")
        if state.status == "failed" and not found:
            said = scrub(str(getattr(state.errors, "data", None)), self._office.key)
            missing = Failure("batch_failed", f"batch {batch.batch} failed: {said}", False, stop=ServerFailingError)
        return self._closed(batch, {digest: found.get(digest, missing) for digest in batch.digests})

    def _closed(self, batch: StoredBatch, outcomes: Outcomes) -> Outcomes:
        """``outcomes``, stored and noted, in this order: a kill in between repeats no call."""
        self._office.cache.put_all({digest: reply for digest, reply in outcomes.items() if isinstance(reply, Reply)})
        self.settle(outcomes)
        self._office.cache.forget_batch(batch.token)
        return outcomes

    def settle(self, outcomes: Mapping[str, Reply | Failure]) -> None:
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
            except (openai.OpenAIError, TimeoutError, BodyError) as error:
                failure = failure_of(error, self._office.key)
            if failure.stop is not None or not failure.retryable or tries > self._settings.max_retries:
                kind = failure.stop or ServerFailingError
                raise kind(f"Batch API at {stop_message(failure, self._settings)}")
            await asyncio.sleep(backoff_s(tries, failure.retry_after_s))

    async def close(self) -> None:
        """Drop connections."""
        await self._openai.close()
