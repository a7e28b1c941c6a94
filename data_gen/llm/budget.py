"""A hard budget: each call reserves the most it can use before it goes out, so the sums never pass the limits."""

import asyncio
import math

from tilewright.data_gen.llm.calls import Call
from tilewright.data_gen.llm.failures import BudgetError
from tilewright.data_gen.llm.ledger import Ledger
from tilewright.data_gen.llm.request import Reply
from tilewright.data_gen.llm.settings import Budget, Prices


class BudgetGate:
    """Lets a call pass only if its worst case fits. What counts as used is the ledger's, with what is unconfirmed.

    Where a server counts more input tokens than our worst case said, the ratio raises all later worst cases.
    """

    def __init__(self, budget: Budget, prices: Prices | None, ledger: Ledger) -> None:
        self._budget, self._prices, self._ledger = budget, prices, ledger
        self._reserved_tokens, self._reserved_cost, self._unsent = 0, 0.0, 0
        self._ratio = 1.0
        self._inherited = {number: (call.most_tokens, call.most_cost) for number, call in ledger.open.items()}
        for tokens, cost in self._inherited.values():  # in batches that an earlier run left under way
            self._reserved_tokens += tokens
            self._reserved_cost += cost
        self._settled = asyncio.Event()
        self._limited = any(value is not None for value in (budget.max_calls, budget.max_tokens, budget.max_cost))

    def worst_case(self, call: Call) -> tuple[int, float]:
        """(tokens, cost) that ``call`` can use at most."""
        tokens = math.ceil(call.estimate.most_input_tokens * self._ratio)
        cost = 0.0
        if self._prices is not None:
            cached = self._prices.cached_input
            dearest = Prices(max(self._prices.input, cached or 0.0), self._prices.output)
            cost = dearest.cost(tokens, call.max_tokens)
        return tokens + call.max_tokens, cost

    async def reserve(self, call: Call) -> tuple[int, float]:
        """Wait until the worst case of ``call`` fits beside those in flight; BudgetError if it can't fit any more.

        The caller then notes the call's start in the ledger and calls ``unsent``, and ``release`` at the call's end.
        """
        most = self.worst_case(call)
        while self._limited:
            limit = self._over(*most, in_flight=False)
            if limit is not None:
                raise BudgetError(self._message(limit))
            if self._over(*most, in_flight=True) is None:
                break
            self._settled.clear()
            await self._settled.wait()
        self._unsent += 1
        self._reserved_tokens += most[0]
        self._reserved_cost += most[1]
        return most

    def unsent(self) -> None:
        """A reserved call was started (the ledger counts it from now on), or won't be."""
        self._unsent -= 1

    def release(self, most: tuple[int, float]) -> None:
        """The call ended: what it used stands in the ledger by now."""
        self._reserved_tokens -= most[0]
        self._reserved_cost -= most[1]
        self._settled.set()

    def release_inherited(self, number: int) -> None:
        """The ledger's call ``number`` ended; does nothing unless an earlier run started it."""
        if number in self._inherited:
            self.release(self._inherited.pop(number))

    def learn(self, call: Call, reply: Reply) -> None:
        """Compare a server's own count of input tokens with our worst case."""
        if reply.usage is not None:
            self._ratio = max(self._ratio, reply.usage.input_tokens / max(call.estimate.most_input_tokens, 1))

    def _over(self, tokens: int, cost: float, *, in_flight: bool) -> str | None:
        """Which limit one more call would pass."""
        whole, budget = self._ledger.whole, self._budget
        calls = whole.calls + self._unsent + 1
        tokens += whole.input_tokens + whole.output_tokens + whole.unconfirmed_tokens
        cost += whole.cost + whole.unconfirmed_cost
        if in_flight:
            tokens, cost = tokens + self._reserved_tokens, cost + self._reserved_cost
        if budget.max_calls is not None and calls > budget.max_calls:
            return f"max_calls {budget.max_calls}"
        if budget.max_tokens is not None and tokens > budget.max_tokens:
            return f"max_tokens {budget.max_tokens}"
        if budget.max_cost is not None and cost > budget.max_cost:
            return f"max_cost {budget.max_cost}"
        return None

    def _message(self, limit: str) -> str:
        whole = self._ledger.whole
        used = f"{whole.calls} calls, {whole.input_tokens + whole.output_tokens} tokens, cost {whole.cost:.6g}"
        maybe = f" and at most {whole.unconfirmed_tokens} tokens of calls whose end nobody saw"
        return (
            f"llm.budget.{limit} allows no further call: {used}{maybe if whole.unconfirmed_tokens else ''} are used."
            " What is finished is kept: raise the budget and run the same command again"
        )
