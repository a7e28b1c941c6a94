"""What a client needs of a way to send calls, and what all ways share."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from tilewright.data_gen.llm.budget import BudgetGate
from tilewright.data_gen.llm.cache import ReplyCache
from tilewright.data_gen.llm.calls import Call
from tilewright.data_gen.llm.failures import (
    CallError,
    DeadlineError,
    Failure,
    ServerFailingError,
    backoff_s,
    stop_message,
)
from tilewright.data_gen.llm.ledger import Ledger
from tilewright.data_gen.llm.request import Reply
from tilewright.data_gen.llm.settings import LlmSettings


class Transport(Protocol):
    """Sends calls. ``reply`` stores what it returns in the cache and notes it in the ledger."""

    async def reply(self, call: Call) -> Reply:
        """The reply, after retries. Raises CallError if it failed for good, StageError if the stage must stop."""
        ...

    async def close(self) -> None:
        """Drop connections."""
        ...


@dataclass
class Office:
    """What all calls of a stage share: settings, cache, ledger, budget, deadline, and how the server has fared.

    ``rest(seconds)`` waits without holding up other items.
    """

    settings: LlmSettings
    cache: ReplyCache
    ledger: Ledger
    budget: BudgetGate
    rest: Callable[[float], Awaitable[None]]
    deadline: float | None = None
    key: str | None = None
    reached: bool = False
    answered: bool = False
    failed_in_a_row: int = 0
    sends_schema: bool = field(init=False)

    def __post_init__(self) -> None:
        self.sends_schema = self.settings.structured_output != "none"

    def check_deadline(self) -> None:
        """Raises DeadlineError once ``stage_timeout_s`` is over."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise DeadlineError(
                f"llm.stage_timeout_s ({self.settings.stage_timeout_s}) is over. What is finished is kept: run the same"
                " command again to go on"
            )

    def finished(self, number: int, call: Call, reply: Reply) -> None:
        """A call of the ledger gave a reply: kept for good before anything else happens."""
        self.cache.put(call.digest, reply)
        self.ledger.end(number, reply)
        self.budget.learn(call, reply)
        self.heard()

    def heard(self) -> None:
        """A well-formed reply came."""
        self.reached, self.answered, self.failed_in_a_row = True, True, 0

    def drop_schema(self, failure: Failure) -> bool:
        """Whether a failure means: the server knows no JSON schema, and we may do without from now on."""
        if failure.schema_refused and self.settings.structured_output == "auto":
            self.sends_schema = False
            return True
        return False

    def give_up(self, failure: Failure, tries: int) -> CallError:
        """The error of a call that failed for good. Raises StageError if the server as a whole is at fault."""
        if failure.stop is not None:
            raise failure.stop(stop_message(failure, self.settings))
        own_fault = self.answered and failure.kind.startswith("http_4")  # say, a text too long for the model
        self.failed_in_a_row += not own_fault
        where = f"{self.settings.base_url}: {failure.text}"
        if failure.kind == "unreachable" and not self.reached:
            raise ServerFailingError(f"{where}: the server was never reached in {tries} tries: is it up?")
        if self.failed_in_a_row >= max(20, 2 * self.settings.concurrency):
            raise ServerFailingError(
                f"{where}: {self.failed_in_a_row} calls in a row failed for good, this was the last. What is finished"
                " is kept: mend the cause and run the same command again"
            )
        return CallError(f"{failure.kind} after {tries} tries: {failure.text}")


async def asked_until_answered(
    office: Office, call: Call, once: Callable[[Call, bool], Awaitable[Reply | Failure]]
) -> Reply:
    """The reply of ``once(call, with_schema)``, tried again as long as that may help. Raises what ``give_up`` makes."""
    tries = 0
    while True:
        tries += 1
        with_schema = call.has_schema and office.sends_schema
        outcome = await once(call, with_schema)
        if isinstance(outcome, Reply):
            return outcome
        if with_schema and office.drop_schema(outcome):
            continue
        if not outcome.retryable or tries > office.settings.max_retries:
            raise office.give_up(outcome, tries)
        await office.rest(backoff_s(tries, outcome.retry_after_s))
