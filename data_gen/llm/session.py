"""One stage's use of a model: cache, ledger and budget, over as many rounds of items as the stage needs."""

import collections
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tilewright.configs.items import ItemError, process_items
from tilewright.data_gen.llm.batch import BatchTransport
from tilewright.data_gen.llm.budget import BudgetGate
from tilewright.data_gen.llm.cache import ReplyCache
from tilewright.data_gen.llm.client import Client
from tilewright.data_gen.llm.crew import Counted, Crew
from tilewright.data_gen.llm.dry_run import DryRun
from tilewright.data_gen.llm.failures import BatchUnderWayError, BudgetError, DeadlineError
from tilewright.data_gen.llm.ledger import Ledger
from tilewright.data_gen.llm.live import LiveTransport
from tilewright.data_gen.llm.settings import LlmSettings
from tilewright.data_gen.llm.transport import Office

T = TypeVar("T")
CACHE = ".llm_cache.sqlite"  # in the stage's own folder, gone when it is finished; name `llm.cache` to keep replies


class Session:
    """Opens the cache and the ledger of the stage that works in ``out``; use it with ``with``.

    Raises InputError for a missing key or a file that is no cache.
    """

    def __init__(self, settings: LlmSettings, out: Path) -> None:
        self.settings, self.out = settings, out
        self._key = None if settings.dry_run else settings.api_key()
        self._deadline = None if settings.stage_timeout_s is None else time.monotonic() + settings.stage_timeout_s
        self.cache = ReplyCache(settings.cache or out / CACHE, reading=settings.dry_run)
        under_way = [digest for batch in self.cache.batches(settings.base_url) for digest in batch.digests]
        self.ledger = Ledger(None if settings.dry_run else out, settings.prices, self.cache.get, under_way)
        self.dry_run = DryRun(settings.prices) if settings.dry_run else None

    def run(
        self, items: Counted[T], work: Callable[[Client, T], Awaitable[Any]]
    ) -> Iterator[tuple[T, Any | ItemError]]:
        """Await ``work(client, item)`` for many items at a time; yield (item, value or ItemError) as they end.

        An item is taken from ``items`` when its work begins, so they may be made as they are needed.
        Made for ``process_items``; nothing goes on while the caller holds an item. A StageError ends it: after
        BatchUnderWayError, BudgetError and DeadlineError the calls in flight still finish and are kept. Closing the
        generator cancels them. A dry run yields nothing and raises DryRunError.
        """
        crew: Crew[T] = Crew(
            items,
            lambda item: work(client, item),
            self.settings.concurrency if self.settings.transport == "live" else self.settings.batch.size,
            graceful=(BatchUnderWayError, BudgetError, DeadlineError),
            busy=lambda: transport.sending,
        )
        budget = BudgetGate(self.settings.budget, self.settings.prices, self.ledger)
        office = Office(self.settings, self.cache, self.ledger, budget, crew.rest, self._deadline, self._key)
        transport = LiveTransport(office) if self.settings.transport == "live" else BatchTransport(office, crew)
        client = Client(office, transport, self.dry_run)
        results = crew.results(transport.close, self.ledger.save)
        if self.dry_run is None:
            yield from results
            return
        collections.deque(results, maxlen=0)
        raise self.dry_run.error(self.settings.model, self.ledger.whole.cached)

    def process(
        self,
        name: str,
        items: Sequence[T],
        key: Callable[[T], str],
        work: Callable[[Client, T], Awaitable[Any]],
        max_error_share: float,
    ) -> dict[str, Any]:
        """``process_items`` with ``run`` for its work, the journal in the stage's folder, the ledger beside the bar."""
        return process_items(
            name,
            items,
            key,
            lambda todo: self.run(todo, work),
            self.out,
            max_error_share=max_error_share,
            metrics=self.metrics,
        )

    def metrics(self) -> dict[str, float | int | str]:
        """Live sums for ``Progress.advance(**metrics)``."""
        return self.ledger.metrics()

    def close(self) -> None:
        """Write ``logs/ledger.json`` and close the files."""
        self.ledger.close()
        unused = self.settings.cache is None and not self.settings.dry_run and self.cache.is_empty()
        self.cache.close()
        if unused:  # a stage that did nothing leaves nothing, so that a mended config may take its folder
            self.cache.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
