"""What a stage would ask and pay, found out without a call."""

from dataclasses import dataclass, field

from tilewright.configs.items import ItemError
from tilewright.configs.stage import DryRunError
from tilewright.data_gen.llm.calls import Call
from tilewright.data_gen.llm.settings import Prices


class DryRunItem(ItemError):
    """An item whose next step depends on a reply that a dry run doesn't ask for."""


@dataclass
class DryRun:
    """Sums by purpose of the calls that would be made."""

    prices: Prices | None
    by_purpose: dict[str, dict[str, float]] = field(default_factory=dict)

    def count(self, call: Call) -> None:
        """One more call."""
        sums = self.by_purpose.setdefault(call.purpose, {})
        found: dict[str, float] = {
            "calls": 1,
            "input_tokens": call.estimate.input_tokens,
            "image_tokens": call.estimate.image_tokens,
            "most_output_tokens": call.max_tokens,
        }
        if self.prices is not None:
            found["most_cost"] = self.prices.cost(call.estimate.input_tokens, call.max_tokens)
        for name, value in found.items():
            sums[name] = sums.get(name, 0) + value

    def error(self, name: str, cached: int) -> DryRunError:
        """The report."""
        lines = [f"dry run of {name}: no call was made; {cached} replies are in the cache. Calls a run would make:"]
        for purpose, sums in sorted(self.by_purpose.items()):
            shown = ", ".join(f"{key} {value:,.6g}" for key, value in sums.items())
            lines.append(f"  {purpose}: {shown}")
        if not self.by_purpose:
            lines.append("  none")
        lines.append("Tokens are estimates; calls for replies that can't be used, and retries, come on top.")
        return DryRunError("\n".join(lines), self.by_purpose)
