"""What servers say when they fail, and what is made of it."""

import email.utils
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.llm import ImagesUnsupportedError, KeyRefusedError, ModelUnknownError
from tilewright.data_gen.llm.completion import from_row, read_completion, to_row
from tilewright.data_gen.llm.failures import Failure, backoff_s, retry_after_s, scrub, status_failure
from tilewright.data_gen.llm.request import Reply, Usage

LLAMA = (
    '{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to'
    ' provide the mmproj","type":"server_error"}}'
)
VLLM = '{"object":"error","message":"microsoft/phi is not a multimodal model","type":"BadRequestError","code":400}'
QUOTA = '{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}'


@pytest.mark.parametrize(
    ("status", "text", "stop"),
    [
        (500, LLAMA, ImagesUnsupportedError),
        (400, VLLM, ImagesUnsupportedError),
        (401, "no", KeyRefusedError),
        (403, "no", KeyRefusedError),
        (429, QUOTA, KeyRefusedError),
        (404, "The model `x` does not exist", ModelUnknownError),
    ],
)
def test_some_failures_stop_the_stage_at_once(status: int, text: str, stop: type[Exception]) -> None:
    found = status_failure(status, text, {}, None)
    assert found.stop is stop and not found.retryable


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_some_are_tried_again(status: int) -> None:
    found = status_failure(status, "busy", {"retry-after": "3"}, None)
    assert found.retryable and found.stop is None and found.retry_after_s == 3.0
    assert found.slow_down == (status in (429, 503))


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_request_is_the_items_error(status: int) -> None:
    found = status_failure(status, "context length exceeded", {}, None)
    assert not found.retryable and found.stop is None and found.kind == f"http_{status}" and not found.schema_refused


def test_a_wait_of_hours_is_no_retry() -> None:
    assert not status_failure(429, "tomorrow", {"retry-after": "86400"}, None).retryable


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after_in_all_its_spellings(headers: dict[str, str], wanted: float | None) -> None:
    assert retry_after_s(headers) == wanted


def test_retry_after_as_a_date() -> None:
    date = email.utils.formatdate(time.time() + 60, usegmt=True)
    found = retry_after_s({"retry-after": date})
    assert found is not None and 58 <= found <= 60


@given(st.integers(1, 100), st.none() | st.floats(0, 900))
def test_back_off_is_bounded_and_never_shorter_than_asked(retry: int, asked: float | None) -> None:
    found = backoff_s(retry, asked)
    assert 0.05 <= found <= 30 if asked is None else asked <= found <= asked + 0.25


def test_no_key_survives_in_a_servers_words() -> None:
    said = scrub("bad key k3y-Z sent as Bearer abc.def, also sk-proj-1234567890 \n k3y-Z", "k3y-Z")
    assert said == "bad key *** sent as Bearer *** also *** ***"
    assert len(scrub("x" * 5000, None)) == 300


CHOICE = '"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("", "broken_json"),
        ("{" + CHOICE, "broken_json"),
        ("[" * 100_000, "broken_json"),
        ("[]", "broken_json"),
        ('"text"', "broken_json"),
        ("{}", "empty_choices"),
        ('{"choices":[]}', "empty_choices"),
        ('{"choices":null}', "empty_choices"),
        ('{"choices":[{}]}', "empty_choices"),
        ('{"choices":[{"message":{"content":5}}]}', "broken_json"),
        ('{"error":{"message":"overloaded"}}', "error_body"),
        ("<html>busy</html>", "broken_json"),
    ],
)
def test_what_is_no_whole_completion_is_a_failure(body: str, kind: str) -> None:
    found = read_completion(body.encode(), None)
    assert isinstance(found, Failure) and found.kind == kind and found.retryable


def test_a_completion_is_read_with_its_usage() -> None:
    usage = '"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}'
    assert read_completion(f"{{{CHOICE},{usage}}}".encode(), None) == Reply("hi", "stop", Usage(9, 2, 4, None))
    assert read_completion(f"{{{CHOICE}}}".encode(), None) == Reply("hi", "stop", None)


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (Reply("x", "stop"), None),
        (Reply("x", "length"), "length"),
        (Reply("", "content_filter"), "content_filter"),
        (Reply("", "stop", refusal="no"), "refused"),
    ],
)
def test_faults_of_a_whole_completion(reply: Reply, fault: str | None) -> None:
    assert reply.fault() == fault


@given(
    st.builds(
        Reply,
        st.text(),
        st.text(),
        st.none() | st.builds(Usage, st.integers(), st.integers(), st.integers(), st.none() | st.integers()),
        st.none() | st.text(),
        st.just(True),
    )
)
def test_a_reply_survives_its_row(reply: Reply) -> None:
    assert from_row(to_row(reply)) == reply


def test_a_key_that_a_server_repeats_in_its_reply_stays_out_of_it() -> None:
    choice = json.dumps({"choices": [{"message": {"content": "sk-abcdef-123456 is EMPTY"}, "finish_reason": "stop"}]})
    assert read_completion(choice.encode(), "sk-abcdef-123456") == Reply("*** is EMPTY", "stop", None)
    assert read_completion(choice.encode(), "EMPTY") == Reply("sk-abcdef-123456 is EMPTY", "stop", None)
