"""Batches that an earlier run left at the server, as a run of live calls meets them: their results are picked up."""

import asyncio

from tilewright.data_gen.llm.batch_desk import BatchDesk, Outcomes
from tilewright.data_gen.llm.cache import StoredBatch
from tilewright.data_gen.llm.failures import BatchUnderWayError
from tilewright.data_gen.llm.request import Reply
from tilewright.data_gen.llm.transport import Office


class OpenBatches:
    """The batches on record for the office's server. One is looked at when a call turns out to be in it, and once."""

    def __init__(self, office: Office) -> None:
        self._office = office
        batches = office.cache.batches(office.settings.base_url)
        self._batch_of = {digest: batch for batch in batches for digest in batch.digests}
        self._desk: BatchDesk | None = None
        self._looked: dict[str, asyncio.Task[Outcomes]] = {}

    async def reply(self, digest: str) -> Reply | None:
        """The reply that a batch has to this call; None if it's in none, or its batch is over without one.

        Raises BatchUnderWayError if its batch isn't over: asked live, the call would be made twice.
        """
        batch = self._batch_of.get(digest)
        if batch is None:
            return None
        if batch.token not in self._looked:
            self._looked[batch.token] = asyncio.get_running_loop().create_task(self._results(batch))
        outcome = (await asyncio.shield(self._looked[batch.token])).get(digest)
        return outcome if isinstance(outcome, Reply) else None

    async def _results(self, batch: StoredBatch) -> Outcomes:
        if self._desk is None:
            self._desk = BatchDesk(self._office)
        sent = await self._desk.find(batch)
        if sent is None:
            return {}
        found = await self._desk.results(sent)
        if isinstance(found, dict):
            return found
        url = self._office.settings.base_url
        raise BatchUnderWayError(
            f"llm.transport: {len(sent.digests)} calls are in batch {sent.batch} at {url}, which is {found}: asked live"
            " they would be paid twice. Go on with `llm.transport=batch`; or wait until the batch is over, or cancel it"
            f" (POST {url}/batches/{sent.batch}/cancel): what it has answered by then is picked up, only the rest is"
            " asked live"
        )

    async def close(self) -> None:
        """Drop connections."""
        tasks = list(self._looked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._desk is not None:
            await self._desk.close()
