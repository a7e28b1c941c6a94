"""The account of a stage's calls: a line when one starts, a line when it ends, so that a kill loses none.

``logs/ledger.jsonl`` is the account itself, ``logs/ledger.json`` its sums for people; both lie outside every digest.
Runs of one stage add up. A call that was started and never ended was in flight at a kill.
"""

import json
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.digests import LOGS
from tilewright.configs.errors import InputError
from tilewright.configs.partial import write_atomically
from tilewright.data_gen.llm.request import Reply, Usage
from tilewright.data_gen.llm.settings import Prices
from tilewright.data_gen.llm.totals import Totals, sum_of

LINES, SUMS = "ledger.jsonl", "ledger.json"


@dataclass
class OpenCall:
    """A call that was started: its purpose, digest and the most it can use."""

    purpose: str
    digest: str
    most_tokens: int
    most_cost: float


class Ledger:
    """The account in ``out/logs``. ``prices`` price what finishes from now on.

    ``lookup(digest)`` gives a stored reply: a call that was killed between storing and noting it has finished.
    ``pending``: digests of calls in batches under way; they are still open. One process at a time (a stage's lock).
    Without ``out`` it is kept in memory only.
    """

    def __init__(
        self,
        out: Path | None,
        prices: Prices | None = None,
        lookup: Callable[[str], Reply | None] = lambda digest: None,
        pending: Collection[str] = (),
    ) -> None:
        self._folder = None if out is None else out / LOGS
        self._prices, self._file = prices, -1
        self.by_purpose: dict[str, Totals] = {}
        self.open: dict[int, OpenCall] = {}
        self._next = 1
        self._failed: set[str] = set()  # digests whose last call failed
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._read(self._folder / LINES)
            self._settle(lookup, set(pending))
            self._compact(self._folder / LINES)
            self._file = os.open(self._folder / LINES, os.O_WRONLY | os.O_APPEND)
        self.whole = sum_of(list(self.by_purpose.values()))

    def start(self, purpose: str, digest: str, most_tokens: int, most_cost: float) -> int:
        """A call goes out; returns its number, for ``end``. It's a retry if the last one of its digest failed."""
        number = self._next
        self._write(["s", number, purpose, digest, most_tokens, most_cost, int(digest in self._failed)])
        return number

    def end(self, number: int, reply: Reply) -> None:
        """The call gave a well-formed reply."""
        usage = reply.usage or Usage()
        cost = self.cost(usage)
        self._write(["e", number, [*vars(usage).values()], cost])

    def fail(self, number: int, kind: str, *, may_cost: bool) -> None:
        """The call gave none; ``may_cost``: its work may have been done nonetheless."""
        self._write(["f", number, kind, int(may_cost)])

    def cached(self, purpose: str) -> None:
        """A stored reply saved a call."""
        self._write(["c", purpose])

    def unusable(self, purpose: str, reason: str) -> None:
        """A well-formed reply couldn't be used."""
        self._write(["u", purpose, reason])

    def cost(self, usage: Usage) -> float:
        """What a call cost by the prices; 0 without."""
        if self._prices is None:
            return 0.0
        return self._prices.cost(usage.input_tokens, usage.output_tokens, usage.cached_input_tokens)

    def metrics(self) -> dict[str, float | int | str]:
        """The sums that are worth watching, for ``Progress.advance(**metrics)``."""
        whole = self.whole
        shown: dict[str, float | int | str] = {
            "calls": whole.calls,
            "cached": whole.cached,
            "retries": whole.retries,
            "failures": whole.failures.total(),
            "tokens_in": whole.input_tokens,
            "tokens_out": whole.output_tokens,
        }
        return shown if self._prices is None else shown | {"cost": round(whole.cost, 6)}

    def report(self) -> dict[str, Any]:
        """{"all": sums, "by_purpose": {purpose: sums}, "open": calls that haven't ended}."""
        parts = {purpose: totals.plain() for purpose, totals in sorted(self.by_purpose.items())}
        return {"all": self.whole.plain(), "by_purpose": parts, "open": len(self.open)}

    def save(self) -> None:
        """Write the sums for people."""
        if self._folder is not None:
            text = json.dumps(self.report(), indent=1, ensure_ascii=False)
            write_atomically(self._folder / SUMS, text + "\n")

    def close(self) -> None:
        """Write the sums and close the file."""
        self.save()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, line: list[Any]) -> None:
        if self._file >= 0:
            os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self._apply(line, (self.whole,))

    def _apply(self, line: list[Any], beside: tuple[Totals, ...] = ()) -> None:
        """Add one line to the sums, and to those in ``beside``."""
        kind = line[0]
        if kind == "t":
            self._next = line[1]
            self.by_purpose = {purpose: Totals.of(values) for purpose, values in line[2].items()}
            self.open = {int(number): OpenCall(*values) for number, values in line[3].items()}
            self._failed = set(line[4])
            return
        call = self.open.pop(line[1]) if kind in "ef" else None
        purpose = line[2] if kind == "s" else line[1] if call is None else call.purpose
        for totals in (self.by_purpose.setdefault(purpose, Totals()), *beside):
            _add(totals, line, call)
        if call is not None:
            (self._failed.discard if kind == "e" else self._failed.add)(call.digest)
        if kind == "s":
            self.open[line[1]] = OpenCall(*line[2:6])
            self._next = max(self._next, line[1] + 1)

    def _read(self, path: Path) -> None:
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []  # a torn last line is left out
        for number, line in enumerate(lines, start=1):
            try:
                self._apply(json.loads(line))
            except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
                raise InputError(
                    f"{path}:{number}: not a ledger line ({error}); delete the file, and its sums"
                ) from error

    def _settle(self, lookup: Callable[[str], Reply | None], pending: set[str]) -> None:
        """Close the calls of a killed run, but for those in batches under way."""
        for number, call in list(self.open.items()):
            reply = lookup(call.digest)
            if reply is not None:
                usage = reply.usage or Usage()
                self._apply(["e", number, [*vars(usage).values()], self.cost(usage)])
            elif call.digest not in pending:
                del self.open[number]
                totals = self.by_purpose[call.purpose]
                totals.in_flight_at_kill += 1
                totals.add_unconfirmed(call.most_tokens, call.most_cost)

    def _compact(self, path: Path) -> None:
        """Fold all lines into one; atomic, so that a kill leaves the old lines or the new one."""
        sums = {purpose: totals.plain() for purpose, totals in self.by_purpose.items()}
        line = ["t", self._next, sums, {number: list(vars(call).values()) for number, call in self.open.items()}]
        line.append(sorted(self._failed))
        write_atomically(path, json.dumps(line, separators=(",", ":")) + "\n")


def _add(totals: Totals, line: list[Any], call: OpenCall | None) -> None:
    kind = line[0]
    if kind == "s":
        totals.calls += 1
        totals.retries += line[6]
    elif kind == "e":
        totals.finished += 1
        totals.add_usage(Usage(*line[2]), line[3])
    elif kind == "f" and call is not None:
        totals.failures[line[2]] += 1
        if line[3]:
            totals.add_unconfirmed(call.most_tokens, call.most_cost)
    elif kind == "c":
        totals.cached += 1
    elif kind == "u":
        totals.unusable[line[2]] += 1
