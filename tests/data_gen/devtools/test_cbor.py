"""CBOR as Chromium speaks it: known bytes, round trips, and nothing but CborError for what is broken."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.devtools.cbor import HEADER_BYTES, CborError, decode, encode, frame_bytes

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
NUMBERS = st.integers(-(2**31), 2**31 - 1) | st.floats(allow_nan=False)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS | st.binary(max_size=70_000)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5))


def envelope(body: bytes) -> bytes:
    return b"\xd8\x18\x5a" + len(body).to_bytes(4, "big") + body


def test_known_bytes() -> None:
    """By RFC 8949, appendix A; strings in UTF-16 and envelopes by Chromium's own rules."""
    assert encode({"id": 1}) == envelope(b"\xbf\x62id\x01\xff")
    numbers = b"\x17\x18\x18\x19\x03\xe8\x1a\x00\x0f\x42\x40\x20\x38\x63\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a"
    values = [23, 24, 1000, 1_000_000, -1, -100, 1.1]
    message = {"a": values, "b": [None, True, False]}
    body = b"\xbf\x61a" + envelope(b"\x9f" + numbers + b"\xff") + b"\x61b" + envelope(b"\x9f\xf6\xf5\xf4\xff") + b"\xff"
    assert encode(message) == envelope(body) and decode(envelope(body)) == message
    utf16 = "Ж🙂".encode("utf-16-le")
    assert decode(envelope(b"\xbf\x61t" + bytes((0x40 | len(utf16),)) + utf16 + b"\xff")) == {"t": "Ж🙂"}
    assert decode(envelope(b"\xbf\x61d\xd6\x43\x00\xff\x80\xff")) == {"d": b"\x00\xff\x80"}


@given(st.dictionaries(TEXTS, VALUES, max_size=5))
def test_what_is_encoded_is_decoded(message: dict[str, Any]) -> None:
    frame = encode(message)
    assert decode(frame) == message
    assert frame_bytes(frame[:HEADER_BYTES]) == len(frame)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3), st.data())
def test_a_part_of_a_message_is_refused(message: dict[str, Any], data: st.DataObject) -> None:
    frame = encode(message)
    with pytest.raises(CborError):
        decode(frame[: data.draw(st.integers(0, len(frame) - 1))])
    with pytest.raises(CborError, match="wanted a message of"):
        decode(frame + b"\x00")


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(content: bytes) -> None:
    for frame in (content, envelope(content), envelope(b"\xbf" + content + b"\xff")):
        try:
            decode(frame)
        except CborError:
            continue


def test_depth_and_kinds_have_an_end() -> None:
    nested: Any = 1
    for _ in range(5000):
        nested = envelope(b"\x9f" + (nested if isinstance(nested, bytes) else b"\x01") + b"\xff")
    with pytest.raises(CborError, match="deep"):
        decode(nested)
    with pytest.raises(TypeError, match="wanted a value that JSON has"):
        encode({"a": object()})
    with pytest.raises(CborError, match="begins with"):
        frame_bytes(b"\x7b\x22id\x22:1")
