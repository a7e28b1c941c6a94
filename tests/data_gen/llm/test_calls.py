"""A call: its body as the API wants it, its digest over all that determines the reply."""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.llm import ImagePart, ImageSettings, LlmSettings, Request
from tilewright.data_gen.llm.calls import Call, make_call
from tilewright.data_gen.llm.pictures import SentPicture
from tilewright.data_gen.llm.request import estimate

SETTINGS = LlmSettings("m", 0.2, 50, "http://h/v1", seed=7, top_p=0.9, extra_body={"top_k": 3})
SCHEMA = {"type": "object"}
PICTURE = SentPicture(b"png", hashlib.sha256(b"png").hexdigest(), "image/png", (56, 29))
REQUEST = Request("generate", (ImagePart(b"png"), "Ask."), system="You ask.", schema=SCHEMA, schema_name="pairs")


def call(request: Request = REQUEST, settings: LlmSettings = SETTINGS, attempt: int = 0) -> Call:
    pictures = [PICTURE for part in request.parts if isinstance(part, ImagePart)]
    return make_call(request, pictures, settings, attempt)


def test_the_body_is_a_chat_completion_with_data_urls_and_a_schema() -> None:
    url = "data:image/png;base64," + base64.b64encode(b"png").decode()
    wanted = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "You ask."},
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "Ask."}],
            },
        ],
        "temperature": 0.2,
        "top_p": 0.9,
        "seed": 9,
        "max_tokens": 50,
        "top_k": 3,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "pairs", "schema": SCHEMA, "strict": True},
        },
    }
    assert call(attempt=2).body(True) == wanted
    del wanted["response_format"]
    assert call(attempt=2).body(False) == wanted


def test_one_text_is_a_plain_string_and_what_is_unset_is_not_sent() -> None:
    settings = LlmSettings("m", None, 5, "http://h/v1", max_tokens_name="max_completion_tokens")
    body = call(Request("p", ("hello",), max_tokens=3), settings).body(True)
    user = {"role": "user", "content": "hello"}
    assert body == {"model": "m", "messages": [user], "max_completion_tokens": 3}


def test_lone_surrogates_are_sent_as_replacement_characters() -> None:
    sent = call(Request("p", ("a\ud83d b \ud83d\ude00",), system="\udc00")).body(False)["messages"]
    assert [message["content"] for message in sent] == ["\ufffd", "a\ufffd b \U0001f600"]


def test_detail_is_sent_and_counts() -> None:
    settings = replace(SETTINGS, image=ImageSettings(detail="high"))
    sent = call(settings=settings)
    assert sent.body(False)["messages"][1]["content"][0]["image_url"]["detail"] == "high"
    assert sent.digest != call().digest


def test_the_digest_is_sha256_of_canonical_json() -> None:
    identity = {
        "attempt": 1,
        "detail": None,
        "extra_body": {"top_k": 3},
        "max_tokens": 50,
        "messages": [
            {"content": "You ask.", "role": "system"},
            {
                "content": [{"sha256": PICTURE.sha256, "type": "image/png"}, {"text": "Ask.", "type": "text"}],
                "role": "user",
            },
        ],
        "model": "m",
        "sampling": {"seed": 8, "temperature": 0.2, "top_p": 0.9},
        "schema": ["pairs", SCHEMA],
    }
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert call(attempt=1).digest == hashlib.sha256(text.encode()).hexdigest()


CHANGES: list[Callable[[], Call]] = [
    lambda: call(attempt=1),
    lambda: call(replace(REQUEST, system=None)),
    lambda: call(replace(REQUEST, parts=("Ask.", ImagePart(b"png")))),
    lambda: call(replace(REQUEST, parts=("Ask.",))),
    lambda: call(replace(REQUEST, schema=None)),
    lambda: call(replace(REQUEST, schema={"type": "array"})),
    lambda: call(replace(REQUEST, schema_name="other")),
    lambda: call(replace(REQUEST, max_tokens=51)),
    lambda: make_call(REQUEST, [replace(PICTURE, sha256="0" * 64)], SETTINGS, 0),
    *(
        (lambda name=name, value=value: call(settings=replace(SETTINGS, **{name: value})))
        for name, value in {
            "model": "n",
            "temperature": 0.3,
            "top_p": None,
            "seed": None,
            "max_tokens": 49,
            "extra_body": {},
        }.items()
    ),
]


def test_whatever_determines_a_reply_changes_the_digest() -> None:
    digests = [change().digest for change in CHANGES]
    assert len({call().digest, *digests}) == len(digests) + 1


def test_a_schema_that_is_not_sent_is_no_part_of_the_request() -> None:
    bare = call(settings=replace(SETTINGS, structured_output="none"))
    assert bare.digest == call(replace(REQUEST, schema=None)).digest and "response_format" not in bare.body(True)


@pytest.mark.parametrize(
    "changes",
    [{"base_url": "http://i/v1"}, {"concurrency": 3}, {"api_key_env": "K"}, {"transport": "batch"}, {"attempts": 1}],
)
def test_where_and_how_a_call_goes_out_does_not(changes: dict[str, Any]) -> None:
    assert call(settings=replace(SETTINGS, **changes)).digest == call().digest
    assert call(replace(REQUEST, purpose="other")).digest == call().digest


@given(st.lists(st.text()), st.lists(st.tuples(st.integers(1, 4000), st.integers(1, 4000))))
def test_estimates_are_bytes_and_patches(texts: list[str], sizes_px: list[tuple[int, int]]) -> None:
    found = estimate(texts, sizes_px, 28)
    patches = sum(((width + 27) // 28) * ((height + 27) // 28) for width, height in sizes_px)
    assert found.image_tokens == patches
    assert found.most_input_tokens >= sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) + patches
    assert patches <= found.input_tokens <= found.most_input_tokens
