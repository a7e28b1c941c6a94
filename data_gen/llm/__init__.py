"""A language model behind an OpenAI-compatible server, asked about many items: cached, accounted for, resumable.

A stage has a field ``llm: LlmSettings`` in its config and asks like this::

    from tilewright.data_gen.llm import Answered, Client, ImagePart, LlmSettings, Request, Session, Unusable

    async def ask(client: Client, tile: Tile) -> dict[str, Any]:
        request = Request("generate", (ImagePart(tile.image), "Ask one question about this tile."), system="...")
        found = await client.complete(request, parse_pairs)        # parse returns None for a reply it can't use
        if isinstance(found, Unusable):
            return {"dropped": found.reason}                       # unparsed, refused, length, content_filter
        return {"pairs": to_json(found.value)}

    with Session(config.llm, out) as session:                      # cache, logs/ledger.json, budget
        results = process_items("make_queries", tiles, key, lambda todo: session.run(todo, ask), out)

``session.run`` may be called for one round of items after another. An item may ask several times in sequence. CallError
(an ItemError) is a value of the item; BudgetError and other StageErrors end the stage, and the same command goes on.
With ``dry_run`` it raises DryRunError, whose message is the estimate. ``session.metrics()`` is for Progress.
"""

from tilewright.configs.stage import DryRunError as DryRunError
from tilewright.data_gen.llm.client import Client as Client
from tilewright.data_gen.llm.failures import BatchUnderWayError as BatchUnderWayError
from tilewright.data_gen.llm.failures import BudgetError as BudgetError
from tilewright.data_gen.llm.failures import CallError as CallError
from tilewright.data_gen.llm.failures import DeadlineError as DeadlineError
from tilewright.data_gen.llm.failures import ImagesUnsupportedError as ImagesUnsupportedError
from tilewright.data_gen.llm.failures import KeyRefusedError as KeyRefusedError
from tilewright.data_gen.llm.failures import ModelUnknownError as ModelUnknownError
from tilewright.data_gen.llm.failures import ServerFailingError as ServerFailingError
from tilewright.data_gen.llm.request import Answered as Answered
from tilewright.data_gen.llm.request import ImagePart as ImagePart
from tilewright.data_gen.llm.request import Reply as Reply
from tilewright.data_gen.llm.request import Request as Request
from tilewright.data_gen.llm.request import Unusable as Unusable
from tilewright.data_gen.llm.request import Usage as Usage
from tilewright.data_gen.llm.session import Session as Session
from tilewright.data_gen.llm.settings import BatchSettings as BatchSettings
from tilewright.data_gen.llm.settings import Budget as Budget
from tilewright.data_gen.llm.settings import ImageSettings as ImageSettings
from tilewright.data_gen.llm.settings import LlmSettings as LlmSettings
from tilewright.data_gen.llm.settings import Prices as Prices
