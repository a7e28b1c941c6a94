"""The agent as a reader of the evaluation: it takes the row's retriever and delivery as its tool and answers alone."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.configs.requests import request_of
from tilewright.data_gen.llm import Client, Session
from tilewright.eval.agent import wording
from tilewright.eval.agent.endpoint import EndpointTool
from tilewright.eval.agent.loop import Loop
from tilewright.eval.agent.options import Agent
from tilewright.eval.agent.steps import copy_steps, write_steps
from tilewright.eval.agent.tool import DrawnTool, RowTool, Tool, one_thread, row_identity
from tilewright.eval.parts import Asked, Delivery, Item, Prediction, Question, Retriever
from tilewright.eval.readers.chat import estimated_cost
from tilewright.eval.workshop import Workshop

_SCHEMA = 1  # of the loop: raised when the same replies would lead to other predictions


class AgentReader:
    """Many questions at a time; replies are cached by request, so a killed run repeats no finished call.

    ``using`` gives it a tool; without one it can't answer.
    """

    stand_in, sees_answers = "", False

    def __init__(self, options: Agent, row: tuple[Retriever, Delivery, int] | None = None) -> None:
        self._options, self._row = options, row
        self.settings = options.llm
        self.title = f"agent, {options.llm.model}"

    def using(self, retriever: Retriever, delivery: Delivery, k: int) -> "AgentReader":
        """The same agent with a row's tool. Raises InputError for one with nothing to search."""
        if self._options.endpoint is None and retriever.closed_book:
            raise InputError(f"wanted a retriever for an agent to search with, found {retriever.title!r}")
        return AgentReader(self._options, (retriever, delivery, k))

    @property
    def identity(self) -> str:
        """Of the model, prompts, limits and the tool."""
        config = request_of("agent", _SCHEMA, self._options)["config"]
        prompts = [wording.TEXT_TASK, wording.NATIVE_TASK, wording.TOOL]
        return digest_text(canonical_json([_SCHEMA, config, prompts, self._tool_identity()]))

    def cost(self, item: Item) -> int:
        """See ``estimated_cost``."""
        return estimated_cost(item)

    def answer(self, asked: Sequence[Asked], out: Path) -> Iterator[tuple[Asked, Prediction | ItemError]]:
        """Each with its prediction or error; the steps of each are written first. Raises StageError as a Session."""
        tool = self._tool()
        try:
            with Session(self.settings, out) as session:

                async def ask(client: Client, one: Asked) -> dict[str, Any]:
                    return await self._ask(client, tool, one, out)

                for one, value in session.run(asked, ask):
                    yield one, value if isinstance(value, ItemError) else Prediction(**value)
        finally:
            tool.close()

    async def _ask(self, client: Client, tool: Tool, asked: Asked, out: Path) -> dict[str, Any]:
        started = time.monotonic()
        loop = Loop(client, self._options, tool, asked.question, self.cost)
        try:
            found = await loop.run()
        except ItemError as error:
            loop.talk.note("error", error=str(error))
            raise
        finally:
            if not self.settings.dry_run:
                write_steps(out, asked.key(False), loop.talk.steps)
        return found | {"seconds": time.monotonic() - started}

    def copy_steps(self, part: Path, questions: Sequence[Question], out: Path) -> None:
        """Copy the steps of ``questions`` from the folder that ``answer`` wrote to."""
        copy_steps(part, {question.query_id: Asked(question, ()).key(False) for question in questions}, out)

    def _tool_identity(self) -> str:
        if self._row is None:
            return ""
        retriever, delivery, k = self._row
        if self._options.endpoint is not None:
            return EndpointTool(self._options.endpoint, k).identity
        return row_identity(retriever, delivery, k, self._options.depth)

    def _tool(self) -> Tool:
        if self._row is None:
            raise InputError("wanted an agent with a tool (`using`), found none")
        retriever, delivery, k = self._row
        if self._options.endpoint is not None:
            return EndpointTool(self._options.endpoint, k)
        row = RowTool(retriever, delivery, k, self._options.depth, self.cost, one_thread())
        return DrawnTool(row, sorted(retriever.page_of)) if self.settings.dry_run else row


def agent_reader(options: Agent, workshop: Workshop) -> AgentReader:
    """Nothing is asked or searched yet."""
    return AgentReader(options)
