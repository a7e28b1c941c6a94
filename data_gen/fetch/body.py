"""The body of an answer, decompressed while it comes in, never more than is allowed in memory."""

import zlib
from typing import Any

import httpx2

from tilewright.data_gen.fetch.failure import FetchError

ACCEPT_ENCODING = "gzip, deflate"
_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_PLAIN = ("", "identity")


async def read_body(response: httpx2.Response, max_bytes: int, *, cut: bool = False) -> bytes:
    """The decoded body. More than ``max_bytes``, sent or decoded, is a FetchError (``cut``: what came until then)."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    decoder = None if encoding in _PLAIN else _Decoder(encoding)
    body, received = bytearray(), 0
    async for raw in response.aiter_raw():
        received += len(raw)
        body += raw if decoder is None else decoder.decode(raw, max_bytes + 1 - len(body))
        if max(len(body), received) > max_bytes:
            if cut:
                return bytes(body[:max_bytes])
            raise FetchError("too_large", f"more than {max_bytes} bytes", final=True)
    if decoder is not None and received and not decoder.whole:
        raise FetchError("bad_encoding", f"{encoding} data ends early", final=True)
    return bytes(body)


class _Decoder:
    """gzip (also of several members) or deflate, of either kind."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise FetchError("bad_encoding", f"Content-Encoding {encoding[:80]!r} wasn't asked for", final=True)
        self._encoding = encoding
        self._wbits = 0 if encoding == "deflate" else _GZIP  # 0: not known before two bytes are there
        self._stream: Any = zlib.decompressobj(_GZIP)
        self._head = b""

    @property
    def whole(self) -> bool:
        """Whether the data so far end where they should."""
        return bool(self._stream.eof)

    def decode(self, data: bytes, limit_bytes: int) -> bytes:
        """Decoded bytes of ``data``, at most ``limit_bytes``: the caller counts and stops."""
        if not self._wbits:
            data = self._head = self._head + data
            if len(data) < 2:
                return b""
            self._wbits = _ZLIB if _is_zlib(data) else _RAW
            self._stream = zlib.decompressobj(self._wbits)
        decoded = self._decompress(data, limit_bytes)
        while self._stream.eof and self._stream.unused_data[:2] == b"\x1f\x8b" and len(decoded) < limit_bytes:
            rest, self._stream = self._stream.unused_data, zlib.decompressobj(self._wbits)
            decoded += self._decompress(rest, limit_bytes - len(decoded))
        return decoded

    def _decompress(self, data: bytes, limit_bytes: int) -> bytes:
        try:
            decoded: bytes = self._stream.decompress(data, limit_bytes)
        except zlib.error as error:
            raise FetchError("bad_encoding", f"the data are no {self._encoding}", final=True) from error
        return decoded


def _is_zlib(head: bytes) -> bool:
    """Whether data begin with a zlib header (RFC 1950, 2.2); some servers send "deflate" without it."""
    return head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
