"""The client that a stage's work asks: cache, then transport; replies that can't be used are asked for again."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tilewright.data_gen.llm.calls import Call, make_call
from tilewright.data_gen.llm.dry_run import DryRun, DryRunItem
from tilewright.data_gen.llm.pictures import SentPicture, send_picture
from tilewright.data_gen.llm.request import Answered, ImagePart, Reply, Request, Unusable
from tilewright.data_gen.llm.transport import Office, Transport

T = TypeVar("T")


class Client:
    """Asks one model. Made by ``Session.run``, which hands it to ``work``."""

    def __init__(self, office: Office, transport: Transport, dry_run: DryRun | None = None) -> None:
        self._office, self._transport, self._dry_run = office, transport, dry_run
        self._asked: dict[str, asyncio.Future[Reply]] = {}  # calls under way, so that equal ones are made once

    async def complete(
        self, request: Request, parse: Callable[[str], T | None], *, stand_in: str | None = None
    ) -> Answered[T] | Unusable:
        """What ``parse`` makes of the model's reply; it returns None for a reply that can't be used.

        Unusable after ``settings.attempts`` replies that were unparsed, refused, cut off or filtered. Raises CallError
        (an ItemError) if a call failed for good, StageError if the stage must stop (budget, key, model, pictures, no
        server). In a dry run a reply comes from the cache, else it is ``stand_in``, so that later steps are counted
        too; without it the item ends there.
        """
        pictures = [await self._picture(part) for part in request.parts if isinstance(part, ImagePart)]
        replies = []
        for attempt in range(self._office.settings.attempts):
            call = make_call(request, pictures, self._office.settings, attempt)
            reply = await self.send(call, None if stand_in is None else Reply(stand_in, "stop"))
            reason = reply.fault()
            value = parse(reply.text) if reason is None else None
            if value is not None:
                return Answered(value, reply, attempt)
            replies.append(reply)
            if not reply.cached:  # else it was counted when it came
                self._office.ledger.unusable(request.purpose, reason or "unparsed")
        return Unusable(reason or "unparsed", tuple(replies))

    async def _picture(self, part: ImagePart) -> SentPicture:
        """In a thread: scaling and encoding a tile takes longer than many a call."""
        return await asyncio.to_thread(send_picture, part, self._office.settings.image)

    async def send(self, call: Call, stand_in: Reply | None = None) -> Reply:
        """The reply to a call that the caller has made (``turns``): from the cache, else from the server.

        Raises as ``complete``. In a dry run it is ``stand_in`` unless it is in the cache.
        """
        reply = self._office.cache.get(call.digest)
        if reply is not None:
            self._office.ledger.cached(call.purpose)
            return reply
        if self._dry_run is not None:
            self._dry_run.count(call)
            if stand_in is None:
                raise DryRunItem("dry run: no call was made")
            return stand_in
        if call.digest in self._asked:
            reply = await asyncio.shield(self._asked[call.digest])
            self._office.ledger.cached(call.purpose)
            return reply
        return await self._ask(call)

    async def _ask(self, call: Call) -> Reply:
        told: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asked[call.digest] = told
        try:
            reply = await self._transport.reply(call)
            told.set_result(reply)
            return reply
        except Exception as error:  # whoever waits for the same reply gets the same error
            told.set_exception(error)
            told.exception()  # nobody may wait for it
            raise
        finally:
            del self._asked[call.digest]
            told.cancel()
