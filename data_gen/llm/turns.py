"""Calls of many turns, with tools: what ``Request`` (one user turn) doesn't hold. Sent by ``Client.send``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.data_gen.llm.calls import MAX_TOKENS, Call, sampling_of, without_surrogates
from tilewright.data_gen.llm.pictures import SentPicture
from tilewright.data_gen.llm.request import ToolCall, estimate
from tilewright.data_gen.llm.settings import LlmSettings


@dataclass(frozen=True)
class Turn:
    """One message. ``calls`` of an assistant's turn, with the ids ``call_ids``; ``call_ids`` of a tool's turn: the one
    call that it answers. Only user turns show pictures."""

    role: Literal["system", "user", "assistant", "tool"]
    parts: tuple[str | SentPicture, ...]
    calls: tuple[ToolCall, ...] = ()
    call_ids: tuple[str, ...] = ()

    def message(self, pictures: Literal["named", "inline"], detail: str | None = None) -> dict[str, Any]:
        """As JSON: pictures by their hash, or as data URLs."""
        content: Any = [_part(part, pictures, detail) for part in self.parts]
        if len(self.parts) == 1 and isinstance(self.parts[0], str):
            content = content[0]["text"]
        made: dict[str, Any] = {"role": self.role, "content": content or ""}
        if self.calls:
            made["tool_calls"] = [
                {"id": name, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for name, call in zip(self.call_ids, self.calls, strict=True)
            ]
        if self.role == "tool":
            (made["tool_call_id"],) = self.call_ids
        return made


def _part(part: str | SentPicture, pictures: str, detail: str | None) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": without_surrogates(part)}
    if pictures == "named":
        return {"sha256": part.sha256, "type": part.media_type}
    shown = {} if detail is None else {"detail": detail}
    return {"type": "image_url", "image_url": {"url": part.url(), **shown}}


def turns_call(
    purpose: str,
    turns: Sequence[Turn],
    settings: LlmSettings,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: Literal["auto", "none"] = "auto",
    attempt: int = 0,
) -> Call:
    """The call that asks for the next turn. ``tools``: as the chat API wants them; ``attempt``: as of a Request."""
    detail, sampling = settings.image.detail, sampling_of(settings, attempt)
    offered = {"tools": list(tools), "tool_choice": tool_choice} if tools else {}
    identity = {
        "model": settings.model,
        "turns": [turn.message("named") for turn in turns],
        "detail": detail,
        "sampling": sampling,
        MAX_TOKENS: settings.max_tokens,
        "extra_body": settings.extra_body,
        "attempt": attempt,
        **offered,
    }

    def body(with_schema: bool) -> dict[str, Any]:
        messages = [turn.message("inline", detail) for turn in turns]
        made = {"model": settings.model, "messages": messages, **sampling, **offered}
        return made | {settings.max_tokens_name: settings.max_tokens} | settings.extra_body

    parts = [part for turn in turns for part in turn.parts]
    texts = [part for part in parts if isinstance(part, str)]
    texts += [text for turn in turns for call in turn.calls for text in (call.name, call.arguments)]
    sizes_px = [part.size_px for part in parts if isinstance(part, SentPicture)]
    expected = estimate([*texts, canonical_json(offered)], sizes_px, settings.image_patch_px)
    return Call(purpose, digest_text(canonical_json(identity)), body, False, expected, settings.max_tokens)
