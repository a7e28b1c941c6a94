"""The CBOR that Chromium's DevTools speak: envelopes, maps without length, strings in UTF-16.

As in Chromium's third_party/inspector_protocol/crdtp/cbor.cc. Every message is an envelope (tag 24 around a byte
string of 4-byte length), and so is every map and list in it. What is binary is a byte string under tag 22; a byte
string without a tag is text in UTF-16.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

_ENVELOPE = b"\xd8\x18\x5a"
HEADER_BYTES = len(_ENVELOPE) + 4
MAX_DEPTH = 200
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _LIST, _MAP, _TAG, _SIMPLE = range(8)
_BINARY_TAG, _ENVELOPE_TAG = 22, 24
_SIMPLE_VALUES = {20: False, 21: True, 22: None}
_INT32 = range(-(2**31), 2**31)
_DOUBLE, _BREAK = 0xFB, 0xFF


class CborError(ValueError):
    """Bytes that are no message of Chromium's."""


def encode(message: Mapping[str, Any]) -> bytes:
    """``message`` in an envelope. Raises TypeError for a value that JSON hasn't either, except bytes."""
    out = bytearray()
    _encode(message, out)
    return bytes(out)


def frame_bytes(header: bytes | bytearray | memoryview) -> int:
    """Length of the message that begins with these HEADER_BYTES. Raises CborError unless it is an envelope."""
    if bytes(header[: len(_ENVELOPE)]) != _ENVELOPE:
        raise CborError(f"wanted a message that begins with {_ENVELOPE.hex()}, found {bytes(header).hex()}")
    return HEADER_BYTES + int.from_bytes(header[len(_ENVELOPE) : HEADER_BYTES], "big")


def decode(frame: bytes | bytearray) -> Any:
    """The one value that ``frame`` holds. Raises CborError."""
    try:
        value, end = _decode(memoryview(frame), 0, 0)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise CborError(f"a message of {len(frame)} bytes is broken: {error}") from error
    if end != len(frame):
        raise CborError(f"wanted a message of {len(frame)} bytes, found one of {end}")
    return value


def _head(kind: int, value: int) -> bytes:
    if value < 24:
        return bytes((kind << 5 | value,))
    for extra, form in ((24, ">B"), (25, ">H"), (26, ">I")):
        size = struct.calcsize(form)
        if value < 1 << 8 * size:
            return bytes((kind << 5 | extra,)) + struct.pack(form, value)
    return bytes((kind << 5 | 27,)) + struct.pack(">Q", value)


def _encode(value: Any, out: bytearray) -> None:
    if value is None or isinstance(value, bool):
        out.append({False: 0xF4, True: 0xF5, None: 0xF6}[value])
    elif isinstance(value, int) and value in _INT32:
        out += _head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value)
    elif isinstance(value, int | float):
        out += b"\xfb" + struct.pack(">d", value)
    elif isinstance(value, str):
        text = value.encode()
        out += _head(_TEXT, len(text)) + text
    elif isinstance(value, bytes):
        out += _head(_TAG, _BINARY_TAG) + _head(_BYTES, len(value)) + value
    elif isinstance(value, Mapping | Sequence):
        _encode_envelope(value, out)
    else:
        raise TypeError(f"wanted a value that JSON has, or bytes, found {type(value).__name__}")


def _encode_envelope(value: Mapping[str, Any] | Sequence[Any], out: bytearray) -> None:
    start = len(out)
    out += _ENVELOPE + bytes(4)
    if isinstance(value, Mapping):
        out.append(_MAP << 5 | 31)
        for key, item in value.items():
            _encode(key, out)
            _encode(item, out)
    else:
        out.append(_LIST << 5 | 31)
        for item in value:
            _encode(item, out)
    out.append(_BREAK)
    struct.pack_into(">I", out, start + len(_ENVELOPE), len(out) - start - HEADER_BYTES)


def _decode(data: memoryview, at: int, depth: int) -> tuple[Any, int]:
    """(the value at ``at``, where it ends)."""
    if depth > MAX_DEPTH:
        raise CborError(f"wanted values at most {MAX_DEPTH} deep")
    if data[at] == _DOUBLE:
        return struct.unpack_from(">d", data, at + 1)[0], at + 9
    kind, value, at = _decode_head(data, at)
    if kind == _UNSIGNED:
        return value, at
    if kind == _NEGATIVE:
        return -1 - value, at
    if kind in (_BYTES, _TEXT):
        return str(_slice(data, at, value), "utf-8" if kind == _TEXT else "utf-16-le", "surrogatepass"), at + value
    if kind == _TAG:
        return _decode_tagged(data, at, value, depth)
    if kind in (_MAP, _LIST):
        return _decode_items(data, at, kind, value, depth)
    if value in _SIMPLE_VALUES:
        return _SIMPLE_VALUES[value], at
    raise CborError(f"simple value {value} at byte {at}")


def _decode_head(data: memoryview, at: int) -> tuple[int, int, int]:
    """(major type, its value or -1 for an open length, where it ends)."""
    first = data[at]
    kind, value = first >> 5, first & 31
    at += 1
    if value < 24:
        return kind, value, at
    if value == 31:
        return kind, -1, at
    size = {24: 1, 25: 2, 26: 4, 27: 8}.get(value, 0)
    if not size:
        raise CborError(f"byte {first:#x} at {at - 1}")
    content = _slice(data, at, size)
    return kind, int.from_bytes(content, "big"), at + size


def _decode_tagged(data: memoryview, at: int, tag: int, depth: int) -> tuple[Any, int]:
    kind, size, at = _decode_head(data, at)
    if kind != _BYTES or size < 0 or tag not in (_BINARY_TAG, _ENVELOPE_TAG):
        raise CborError(f"tag {tag} of type {kind} at byte {at}")
    if tag == _BINARY_TAG:
        return bytes(_slice(data, at, size)), at + size
    value, end = _decode(data, at, depth + 1)
    if end != at + size:
        raise CborError(f"wanted an envelope of {size} bytes at byte {at}, found {end - at}")
    return value, end


def _decode_items(data: memoryview, at: int, kind: int, count: int, depth: int) -> tuple[Any, int]:
    if count >= 0:
        raise CborError(f"wanted a map or list without a length, found {count} items at byte {at}")
    items: list[Any] = []
    while data[at] != _BREAK:
        item, at = _decode(data, at, depth + 1)
        items.append(item)
    at += 1
    if kind == _LIST:
        return items, at
    if len(items) % 2 or not all(isinstance(key, str) for key in items[::2]):
        raise CborError(f"wanted a map of texts at byte {at}")
    return dict(zip(items[::2], items[1::2], strict=True)), at


def _slice(data: memoryview, at: int, size: int) -> memoryview:
    if size < 0 or at + size > len(data):
        raise CborError(f"wanted {size} bytes at byte {at}, found {len(data) - at}")
    return data[at : at + size]
