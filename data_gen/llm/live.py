"""Calls one by one over HTTP, as many at a time as the server bears."""

import asyncio
import time
from collections import Counter
from typing import Any

from tilewright.data_gen.llm.calls import Call
from tilewright.data_gen.llm.completion import read_completion
from tilewright.data_gen.llm.connections import ClientGroup
from tilewright.data_gen.llm.crew import item_task
from tilewright.data_gen.llm.failures import BodyError, Failure, failure_of
from tilewright.data_gen.llm.limits import AdaptiveLimit, Pace
from tilewright.data_gen.llm.open_batches import OpenBatches
from tilewright.data_gen.llm.request import Reply
from tilewright.data_gen.llm.transport import Office, asked_until_answered


class LiveTransport:
    """One HTTP request a call, retried with jittered back-off; ``Retry-After`` is honoured."""

    def __init__(self, office: Office) -> None:
        self._office, self._settings = office, office.settings
        self._clients = ClientGroup(office.settings, office.key)
        self._batches = OpenBatches(office)
        self._limit = AdaptiveLimit(office.settings.concurrency)
        self._requests = Pace(office.settings.requests_per_minute)
        self._tokens = Pace(office.settings.tokens_per_minute)
        self._sending: Counter[asyncio.Task[Any] | None] = Counter()  # calls in flight by the item they are for

    @property
    def sending(self) -> set[asyncio.Task[Any] | None]:
        """The items' tasks that have a call in flight."""
        return set(+self._sending)

    async def reply(self, call: Call) -> Reply:
        """See Transport."""
        left = await self._batches.reply(call.digest)
        return await asked_until_answered(self._office, call, self._try) if left is None else left

    async def _try(self, call: Call, with_schema: bool) -> Reply | Failure:
        await self._wait_for_turn(call)
        office = self._office
        await self._limit.acquire()
        latency_s, outcome = None, None
        try:
            office.check_deadline()
            most = await office.budget.reserve(call)
            started = time.monotonic()
            try:
                number = office.ledger.start(call.purpose, call.digest, *most)
                office.budget.unsent()
                outcome = await self._send(number, call, with_schema)
            finally:
                office.budget.release(most)
            if isinstance(outcome, Reply):
                latency_s = time.monotonic() - started
                self._repay(call, outcome)
            return outcome
        finally:
            self._limit.release(latency_s, slow_down=isinstance(outcome, Failure) and outcome.slow_down)

    async def _send(self, number: int, call: Call, with_schema: bool) -> Reply | Failure:
        """The HTTP request of the ledger's call ``number``; its end is noted whatever happens."""
        import openai

        office, task = self._office, item_task()
        self._sending[task] += 1
        outcome: Reply | Failure = Failure("cancelled", "we gave up waiting", may_cost=True)
        try:
            with self._clients.lend() as client:
                async with asyncio.timeout(self._settings.call_timeout_s):
                    data = await client.post("/chat/completions", cast_to=bytes, body=call.body(with_schema))
            outcome = read_completion(data, office.key)
        except (openai.OpenAIError, TimeoutError, BodyError) as error:
            outcome = failure_of(error, office.key)
        finally:
            self._sending -= Counter([task])
            if isinstance(outcome, Failure):
                office.ledger.fail(number, outcome.kind, may_cost=outcome.may_cost)
                office.reached |= outcome.kind not in ("unreachable", "cancelled")
        if isinstance(outcome, Reply):
            office.finished(number, call, outcome)
        return outcome

    async def _wait_for_turn(self, call: Call) -> None:
        tokens = call.estimate.input_tokens + call.max_tokens
        wait_s = max(self._requests.take(1), self._tokens.take(tokens))
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def _repay(self, call: Call, reply: Reply) -> None:
        """Tokens that were taken from the pace and not used."""
        if reply.usage is not None:
            taken = call.estimate.input_tokens + call.max_tokens
            self._tokens.give_back(taken - reply.usage.input_tokens - reply.usage.output_tokens)

    async def close(self) -> None:
        """See Transport."""
        await self._batches.close()
        await self._clients.close()
