"""The loop of one question (ReAct): think, search, read, until an answer, or until a limit asks for one."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Literal

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.llm import Client, ImagePart, LlmSettings, Reply
from tilewright.data_gen.llm.pictures import SentPicture, send_picture
from tilewright.data_gen.llm.request import ToolCall
from tilewright.data_gen.llm.turns import Turn, turns_call
from tilewright.eval.agent import wording
from tilewright.eval.agent.defusing import defused
from tilewright.eval.agent.options import Agent
from tilewright.eval.agent.replies import SEARCH, Answer, Rejected, Searches, Wish, read_calls, read_labels, read_last
from tilewright.eval.agent.talk import Limit, Talk, sent_parts, text_tokens
from tilewright.eval.agent.tool import Tool
from tilewright.eval.parts import Cost, Item, Question
from tilewright.eval.readers.chat import png_of
from tilewright.train.reader_prompt import CANNOT_ANSWER

PURPOSE = "agent"
_ECHOED_CHARACTERS = 2_000  # of a reply that can't be used
_PER_TOKEN = 8  # characters of a reply that are kept in the talk, whatever a server sends beyond max_tokens


class Loop:
    """Answers one question with ``client`` and ``tool``; its ``talk`` keeps every step, also of one that fails."""

    def __init__(self, client: Client, agent: Agent, tool: Tool, question: Question, cost: Cost) -> None:
        self._client, self._agent, self._tool = client, agent, tool
        self._labels = agent.protocol == "text"
        self.talk = Talk(question, agent.limits, agent.llm.max_tokens, cost)

    async def run(self) -> dict[str, Any]:
        """A Prediction's fields. Raises ItemError if a call or a search fails, or no answer can be had."""
        await self._begin()
        talk = self.talk
        while (limit := talk.limit()) is None:
            reply = await self._reply("auto", 0)
            read = read_labels(reply) if self._labels else read_calls(reply)
            if isinstance(read, Answer):
                return self._answered(read)
            if isinstance(read, Rejected):
                self._reject(reply, read)
                continue
            if read.left_out:
                talk.flags["calls_left_out"] += 1
            await self._search(read)
        if not talk.searches and limit in ("context_tokens", "total_tokens"):
            raise ItemError(f"limits.{limit} ({getattr(talk.limits, limit)}) leaves no room for a search")
        return await self._last(limit)

    async def _begin(self) -> None:
        talk, question = self.talk, self.talk.question
        task = wording.TEXT_TASK if self._labels else wording.NATIVE_TASK
        talk.say("system", task.format(searches=talk.limits.searches))
        if not self._labels:
            talk.expected += text_tokens(str(wording.TOOL))
        text, _ = wording.question_text(question)
        parts: list[str | SentPicture] = [text]
        if question.picture:
            picture = await asyncio.to_thread(send_picture, ImagePart(question.picture), self._agent.llm.image)
            parts = ["The question is about this picture:\n", picture, text]
            talk.expected += _picture_tokens(picture, self._agent.llm)
        talk.add(Turn("user", tuple(parts)), text_tokens(text))
        talk.note("question", text=text)

    async def _reply(self, choice: Literal["auto", "none"], attempt: int) -> Reply:
        tools = () if self._labels else (wording.TOOL,)
        turns = self.talk.turns
        call = turns_call(PURPOSE, turns, self._agent.llm, tools=tools, tool_choice=choice, attempt=attempt)
        reply = await self._client.send(call, self._stand_in(choice))
        self.talk.heard(reply)
        return reply

    def _stand_in(self, choice: str) -> Reply:
        """For a dry run: searches as long as it may."""
        query = f"{self.talk.question.query[:200]} {self.talk.searches}"
        if choice == "none":
            return Reply(f"<answer>{CANNOT_ANSWER}</answer>" if self._labels else CANNOT_ANSWER, "stop")
        if self._labels:
            return Reply(f"<search>{query.replace('<', ' ')}</search>", "stop")
        calls = (ToolCall(SEARCH, json.dumps({"query": query})),)
        return Reply("", "tool_calls", tool_calls=calls)

    def _answered(self, answer: Answer) -> dict[str, Any]:
        talk = self.talk
        if not talk.searches:
            talk.flags["never_searched"] += 1
        if not answer.labelled:
            talk.flags["answer_without_label"] += 1
        found = talk.outcome(answer.text)
        talk.note("answer", text=answer.text, flags=found["flags"], **found["measures"])
        return found

    def _reject(self, reply: Reply, read: Rejected) -> None:
        talk = self.talk
        talk.rejected += 1
        talk.flags[f"rejected: {read.fault}"] += 1
        talk.note("rejected", fault=read.fault)
        echo = defused(reply.text[:_ECHOED_CHARACTERS].strip())[0] or "(nothing)"
        talk.add(Turn("assistant", (echo,)), text_tokens(echo))
        talk.say("user", wording.correction(read.fault))

    async def _search(self, read: Searches) -> None:
        """Run what can be run of the wishes, in their order; each is answered."""
        talk, wishes = self.talk, read.wishes
        kept, _ = defused(read.thought[: self._agent.llm.max_tokens * _PER_TOKEN])
        if self._labels:
            kept = f"{kept}\n<search>{wishes[0].query}</search>".strip()
        calls = tuple(wish.call for wish in wishes if wish.call is not None)
        ids = tuple(f"call_{talk.model_calls}_{number}" for number in range(len(calls)))
        talk.add(
            Turn("assistant", (kept,) if kept or not calls else (), calls, ids),
            text_tokens(kept) + sum(text_tokens(call.arguments) for call in calls),
        )
        if all(wish.fault for wish in wishes):
            talk.rejected += 1
        follow: list[str | SentPicture] = []
        for number, wish in enumerate(wishes):
            parts, pictures = await self._answer_to(wish)
            role: Literal["tool", "user"] = "tool" if wish.call is not None else "user"
            talk.turns.append(Turn(role, parts, call_ids=ids[number : number + 1] if role == "tool" else ()))
            follow += pictures
        if follow:
            talk.turns.append(Turn("user", tuple(follow)))

    async def _answer_to(self, wish: Wish) -> tuple[tuple[str | SentPicture, ...], tuple[str | SentPicture, ...]]:
        """(Parts of the turn that answers a wish, pictures that follow it)."""
        talk = self.talk
        if wish.fault is not None:
            talk.flags[f"rejected: {wish.fault}"] += 1
            talk.note("rejected", fault=wish.fault)
            return self._said(wording.tool_fault(wish.fault)), ()
        if talk.searches >= talk.limits.searches:
            talk.flags["search_not_run"] += 1
            talk.note("search_not_run", query=wish.query)
            return self._said(wording.NO_SEARCH_LEFT), ()
        talk.searches += 1
        if wish.query in talk.queries:
            talk.flags["repeated_search"] += 1
            talk.note("search", number=talk.searches, query=wish.query, repeated=True, items=[])
            return self._said(wording.SEEN_BEFORE), ()
        talk.queries.add(wish.query)
        return await self._found(wish.query)

    async def _found(self, query: str) -> tuple[tuple[str | SentPicture, ...], tuple[str | SentPicture, ...]]:
        """Search; (the results as parts of a turn, pictures that follow it)."""
        talk = self.talk
        found = await self._tool.search(talk.question, query)
        items = self._fitting(found.items)
        cut = len(items) < len(found.items)
        talk.full |= cut
        note = wording.LEFT_OUT if cut else "" if items else wording.NOTHING
        shown = wording.shown_results(talk.searches, items, note, inline=self._labels)
        flags = [*found.flags, *(["results_cut"] if cut else []), *([] if found.items else ["nothing_retrieved"])]
        flags += ["delimiters_defused"] if shown.forged else []
        talk.flags.update(flags)
        talk.note(
            "search",
            number=talk.searches,
            query=query,
            found=len(found.items),
            forged=shown.forged,
            flags=sorted(set(flags)),
            items=[_stored(item, talk.cost) for item in items],
        )
        pictures = await self._pictures(items)
        talk.show(items, [part for part in (*shown.parts, *shown.follow) if isinstance(part, str)])
        return sent_parts(wording.joined(shown.parts), pictures), sent_parts(shown.follow, pictures)

    def _said(self, text: str) -> tuple[str]:
        self.talk.expected += text_tokens(text)
        return (text,)

    def _fitting(self, items: Sequence[Item]) -> list[Item]:
        """The first of ``items`` that fit the context; the first that doesn't ends them."""
        talk, used, kept = self.talk, 0, list[Item]()
        for item in items:
            used += talk.cost(item) + text_tokens(item.title) + 16
            if talk.room(used) < 0:
                break
            kept.append(item)
        return kept

    async def _pictures(self, items: Sequence[Item]) -> dict[str, SentPicture]:
        """{digest of an item: its picture as it is sent}. Raises ItemError for one that can't be decoded."""
        found = {}
        for item in items:
            if item.picture is not None:
                found[item.digest] = await asyncio.to_thread(_sent, item, self._agent.llm)
        return found

    async def _last(self, limit: Limit) -> dict[str, Any]:
        """The answer that is asked for at a limit."""
        talk = self.talk
        talk.flags[f"forced: {limit}"] += 1
        talk.note("forced", limit=limit)
        talk.say("user", wording.last_words(limit, labels=self._labels))
        fault = ""
        for attempt in range(self._agent.llm.attempts):
            read = read_last(await self._reply("none", attempt), labels=self._labels)
            if isinstance(read, Answer):
                return self._answered(read)
            fault = read.fault
            talk.note("rejected", fault=fault)
        raise ItemError(f"no answer in {self._agent.llm.attempts} replies at the limit {limit}: {fault}")


def _sent(item: Item, settings: LlmSettings) -> SentPicture:
    assert item.picture is not None
    try:
        return send_picture(ImagePart(png_of(item.picture.shown())), settings.image)
    except InputError as error:
        raise ItemError(f"{item.item_id}: {error}") from error


def _picture_tokens(picture: SentPicture, settings: LlmSettings) -> int:
    width, height = picture.size_px
    return -(-width // settings.image_patch_px) * -(-height // settings.image_patch_px)


def _stored(item: Item, cost: Cost) -> dict[str, Any]:
    """An item as the steps keep it: whole texts, pictures by their hash."""
    named = {"item_id": item.item_id, "page_id": item.page_id, "source": item.source, "title": item.title}
    if item.picture is None:
        return named | {"tokens": cost(item), "text": item.text}
    shown = {"picture": item.picture.sha256, "compression": item.picture.compression}
    return named | {"tokens": cost(item), **shown, "size_px": list(item.picture.shown_px)}
