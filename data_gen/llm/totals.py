"""The sums a ledger keeps for each purpose, and how they read."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tilewright.data_gen.llm.request import Usage


@dataclass
class Totals:
    """Sums over the calls of one purpose, over all runs of a stage.

    ``calls`` were started; each ended as ``finished``, as one of ``failures`` (by kind) or never, because the process
    was killed: ``in_flight_at_kill``. ``cached`` replies cost no call. ``retries``: those of ``calls`` that repeated a
    failed one. ``unusable``: finished calls whose reply nobody could use, by reason. ``unconfirmed_*``: at most used
    by calls whose end nobody saw (time-outs, dropped connections, kills); a budget counts them as used.
    """

    calls: int = 0
    finished: int = 0
    cached: int = 0
    retries: int = 0
    in_flight_at_kill: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    unusable: Counter[str] = field(default_factory=Counter)
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    image_tokens: int = 0
    cost: float = 0.0
    unconfirmed_tokens: int = 0
    unconfirmed_cost: float = 0.0

    def add_usage(self, usage: Usage, cost: float) -> None:
        """A finished call used this."""
        self.input_tokens += usage.input_tokens
        self.cached_input_tokens += usage.cached_input_tokens
        self.output_tokens += usage.output_tokens
        self.image_tokens += usage.image_tokens or 0
        self.cost += cost

    def add_unconfirmed(self, tokens: int, cost: float) -> None:
        """A call whose end nobody saw may have used this."""
        self.unconfirmed_tokens += tokens
        self.unconfirmed_cost += cost

    def plain(self) -> dict[str, Any]:
        """As JSON-able values; counters sorted by name."""
        values = dict(vars(self))
        for name in ("failures", "unusable"):
            values[name] = dict(sorted(values[name].items()))
        for name in ("cost", "unconfirmed_cost"):
            values[name] = round(values[name], 9)
        return values

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Totals":
        """From ``plain``."""
        counters = {name: Counter(values[name]) for name in ("failures", "unusable")}
        return cls(**(values | counters))


def sum_of(parts: list[Totals]) -> Totals:
    """All purposes together."""
    whole = Totals()
    for part in parts:
        for name, value in vars(part).items():
            setattr(whole, name, getattr(whole, name) + value)
    return whole
