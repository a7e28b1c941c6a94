"""A reader behind an OpenAI-compatible server: pictures inline, compressed before they are sent."""

import asyncio
import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.configs.requests import request_of
from tilewright.data_gen.llm import Answered, Client, ImagePart, LlmSettings, Request, Session
from tilewright.eval.parts import Asked, Item, Prediction
from tilewright.eval.workshop import Workshop
from tilewright.train.pixels import visual_tokens
from tilewright.train.reader_prompt import CANNOT_ANSWER

PURPOSE = "reader"
_ENDING = f"Reply with the answer only, as short as possible. If {{}}, reply: {CANNOT_ANSWER}."
WITH_ITEMS = "Answer the question from what is shown above. " + _ENDING.format("it does not show the answer")
CLOSED_BOOK = "Answer the question. " + _ENDING.format("you do not know the answer")


@dataclass(frozen=True)
class ChatReader:
    """``llm``: the model and its server."""

    kind: Literal["openai"]
    llm: LlmSettings


class ServedReader:
    """Asks the server about many questions at a time; replies are cached by request, failed calls are errors."""

    stand_in, sees_answers = "", False

    def __init__(self, options: ChatReader) -> None:
        self.settings = options.llm
        self.title = options.llm.model
        self.identity = digest_text(
            canonical_json([request_of("chat reader", 1, options.llm)["config"], WITH_ITEMS, CLOSED_BOOK])
        )

    def cost(self, item: Item) -> int:
        """See ``estimated_cost``."""
        return estimated_cost(item)

    def answer(self, asked: Sequence[Asked], out: Path) -> Iterator[tuple[Asked, Prediction | ItemError]]:
        """Each with its prediction or error. Raises StageError where the run must stop (budget, key, no server)."""
        with Session(self.settings, out) as session:
            for one, value in session.run(asked, self._ask):
                yield one, value if isinstance(value, ItemError) else Prediction(**value)

    async def _ask(self, client: Client, asked: Asked) -> dict[str, Any]:
        started = time.monotonic()
        request = await asyncio.to_thread(request_for, asked)
        found = await client.complete(request, _said, stand_in=CANNOT_ANSWER)
        if not isinstance(found, Answered):
            raise ItemError(f"the reply can't be used: {found.reason}")
        usage = found.reply.usage
        pictures = sum(self.cost(item) for item in asked.items if item.picture is not None)
        texts = sum(self.cost(item) for item in asked.items if item.picture is None)
        estimated = pictures + texts + len(asked.question.query) // 4
        told_pictures = usage.image_tokens if usage is not None else None
        return {
            "text": found.value,
            "input_tokens": usage.input_tokens if usage is not None else estimated,
            "visual_tokens": pictures if told_pictures is None else told_pictures,
            "retrieved_text_tokens": texts,
            "output_tokens": usage.output_tokens if usage is not None else len(found.value) // 4 + 1,
            "seconds": time.monotonic() - started,
            "told": usage is not None,
        }


def estimated_cost(item: Item) -> int:
    """Visual tokens at factor 32 of what is sent, or a quarter of a text's bytes: servers tell sums alone."""
    if item.picture is not None:
        return visual_tokens(*item.picture.shown_px)
    return len(item.text.encode("utf-8", "replace")) // 4 + 1


def _said(reply: str) -> str | None:
    """The reply itself; a blank one can't be used."""
    return reply.strip() or None


def request_for(asked: Asked) -> Request:
    """What is sent: items in their order, the query's own picture, then question and options under the same ending.

    Raises ItemError for a picture that can't be decoded.
    """
    parts: list[str | ImagePart] = []
    for number, item in enumerate(asked.items, start=1):
        if item.picture is None:
            parts.append(f"[{number}] {item.title}\n{item.text}\n")
            continue
        try:
            parts.append(ImagePart(png_of(item.picture.shown())))
        except InputError as error:
            raise ItemError(f"{item.item_id}: {error}") from error
    if asked.question.picture:
        parts += ["The question is about this picture:\n", ImagePart(asked.question.picture)]
    options = "".join(f"\n{option}" for option in asked.question.options)
    ending = WITH_ITEMS if asked.items else CLOSED_BOOK
    parts.append(f"{ending}\nQuestion: {asked.question.query}{options}")
    return Request(PURPOSE, tuple(parts))


def png_of(image: Image.Image) -> bytes:
    """``image`` as PNG, packed fast."""
    encoded = io.BytesIO()
    image.save(encoded, "PNG", compress_level=1)
    return encoded.getvalue()


def chat_reader(options: ChatReader, workshop: Workshop) -> ServedReader:
    """Nothing is asked yet."""
    return ServedReader(options)
