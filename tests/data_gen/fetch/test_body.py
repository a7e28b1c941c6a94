"""Bodies: every encoding and cut gives the same bytes, and no more than allowed is ever in memory."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.fetch.body import read_body
from tilewright.data_gen.fetch.failure import FetchError


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


ENCODERS = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": lambda data: gzip.compress(data[:3]) + gzip.compress(data[3:]),
    "deflate": zlib.compress,
    "Deflate ": raw_deflate,
}


def read(data: bytes, encoding: str, piece_bytes: int, limit_bytes: int, *, cut: bool = False) -> bytes:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), piece_bytes):
            yield data[start : start + piece_bytes]

    async def go() -> bytes:
        response = httpx2.Response(200, headers={"content-encoding": encoding}, content=pieces())
        return await read_body(response, limit_bytes, cut=cut)

    return asyncio.run(go())


@given(st.binary(max_size=2000), st.sampled_from(sorted(ENCODERS)), st.integers(1, 3000))
def test_every_encoding_in_any_pieces(data: bytes, encoding: str, piece_bytes: int) -> None:
    assert read(ENCODERS[encoding](data), encoding, piece_bytes, 4000) == data


@pytest.mark.parametrize("encoding", sorted(ENCODERS))
def test_the_limit_is_exact(encoding: str) -> None:
    data = b"\0" * 5000
    encoded = ENCODERS[encoding](data)
    assert read(encoded, encoding, 999, 5000) == data
    with pytest.raises(FetchError, match="too_large: more than 4999 bytes"):
        read(encoded, encoding, 999, 4999)
    assert read(encoded, encoding, 999, 100, cut=True) == data[:100]


def test_a_bomb_is_never_unpacked() -> None:
    bomb = gzip.compress(b"\0" * 60_000_000)
    tracemalloc.start()
    with pytest.raises(FetchError, match="too_large"):
        read(bomb, "gzip", len(bomb), 1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


@given(st.binary(max_size=200), st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, gzip", "x" * 200]))
def test_any_bytes_are_data_or_a_named_failure(data: bytes, encoding: str) -> None:
    try:
        read(data, encoding, 7, 1000)
    except FetchError as error:
        assert error.reason == "bad_encoding" and error.final and len(error.detail) < 150
