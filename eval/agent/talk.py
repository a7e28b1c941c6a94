"""The state of one question's talk: its turns, what they cost, its limits, and every step for the file."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tilewright.data_gen.llm import Reply
from tilewright.data_gen.llm.pictures import SentPicture
from tilewright.data_gen.llm.turns import Turn
from tilewright.eval.agent.options import Limits
from tilewright.eval.parts import Cost, Item, Question

Limit = Literal["searches", "context_tokens", "total_tokens", "rejected"]
ROOM_FOR_LAST_WORDS = 100  # tokens
_TURN = 8  # tokens that a message costs beside its content


def text_tokens(text: str) -> int:
    """A quarter of its bytes: an estimate, for servers tell sums alone."""
    return len(text.encode("utf-8", "replace")) // 4 + 1


@dataclass
class Talk:
    """``expected``: tokens of the next prompt, by the last one that the server told and an estimate of what came
    since; ``shown``: tokens of items by kind in that prompt; ``spent``: of all prompts and replies so far."""

    question: Question
    limits: Limits
    reply_tokens: int
    cost: Cost
    turns: list[Turn] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    flags: Counter[str] = field(default_factory=Counter)
    queries: set[str] = field(default_factory=set)
    searches: int = 0
    rejected: int = 0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    context_tokens: int = 0
    expected: int = 0
    told: bool = True
    full: bool = False
    shown: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)

    @property
    def spent(self) -> int:
        """All prompts and replies together."""
        return self.input_tokens + self.output_tokens

    def add(self, turn: Turn, tokens: int) -> None:
        """A turn of ``tokens`` joins the prompt."""
        self.turns.append(turn)
        self.expected += tokens + _TURN

    def say(self, role: Literal["system", "user"], text: str) -> None:
        """A turn of text alone."""
        self.add(Turn(role, (text,)), text_tokens(text))

    def note(self, step: str, **values: Any) -> None:
        """One more line of the steps."""
        self.steps.append({"step": step, **values})

    def show(self, items: Sequence[Item], texts: Sequence[str]) -> None:
        """These items are in the prompt from now on; ``texts``: all but their pictures, with what frames them."""
        for item in items:
            self.shown[item.modality] += self.cost(item)
        self.expected += text_tokens("".join(texts))
        self.expected += sum(self.cost(item) for item in items if item.picture is not None)

    def heard(self, reply: Reply) -> None:
        """A reply came: its cost by the server's word, else by estimate."""
        usage = reply.usage
        sent = usage.input_tokens if usage and usage.input_tokens else self.expected
        calls = "".join(call.name + call.arguments for call in reply.tool_calls)
        made = usage.output_tokens if usage and usage.output_tokens else text_tokens(reply.text + calls)
        self.told &= bool(usage and usage.input_tokens)
        self.model_calls += 1
        self.input_tokens += sent
        self.output_tokens += made
        self.context_tokens = sent
        told_pictures = usage.image_tokens if usage else None
        self.read["picture"] += self.shown["picture"] if told_pictures is None else told_pictures
        self.read["text"] += self.shown["text"]
        self.expected = sent
        spoken = {"text": reply.text, "finish_reason": reply.finish_reason}
        said = [[call.name, call.arguments] for call in reply.tool_calls]
        self.note("reply", prompt_tokens=sent, output_tokens=made, **spoken, tool_calls=said)

    def limit(self) -> Limit | None:
        """The limit that allows no further search, if there is one."""
        if self.searches >= self.limits.searches:
            return "searches"
        if self.rejected > self.limits.rejected:
            return "rejected"
        if self.full or self.room(0) < 0:
            return "context_tokens"
        most = self.limits.total_tokens
        if most is not None and self.spent + self.expected + self.reply_tokens > most:
            return "total_tokens"
        return None

    def room(self, reserved: int) -> int:
        """Tokens that further results may have beside a reply, the last words and what is ``reserved``."""
        return self.limits.context_tokens - self.expected - self.reply_tokens - ROOM_FOR_LAST_WORDS - reserved

    def outcome(self, answer: str) -> dict[str, Any]:
        """A Prediction's fields. Tokens of items are summed over all prompts that showed them."""
        pictures = min(self.read["picture"], self.input_tokens)
        measures = {
            "searches": self.searches,
            "model_calls": self.model_calls,
            "prompt_tokens": self.input_tokens,
            "final_context_tokens": self.context_tokens,
            "rejected_replies": self.rejected,
        }
        return {
            "text": answer,
            "input_tokens": self.input_tokens,
            "visual_tokens": pictures,
            "retrieved_text_tokens": min(self.read["text"], self.input_tokens - pictures),
            "output_tokens": self.output_tokens,
            "told": self.told,
            "flags": sorted(self.flags),
            "measures": measures,
        }


def sent_parts(parts: Sequence[str | Item], pictures: dict[str, SentPicture]) -> tuple[str | SentPicture, ...]:
    """``parts`` as a turn holds them; ``pictures``: {item's digest: as it is sent}."""
    return tuple(part if isinstance(part, str) else pictures[part.digest] for part in parts)
