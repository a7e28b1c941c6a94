"""Which addresses are public, and that a host is connected to at an address that was checked."""

import asyncio
import ipaddress
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.fetch.guard import PrivateAddressError, UnknownHostError, is_public, transport


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.9.1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254"),
        *("0.0.0.0", "100.64.0.1", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255", "198.18.0.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1"),
        *(
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2002:a00:1::",
        ),
    ],
)
def test_private_addresses(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "8.8.8.8", "172.32.0.1", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_an_address_in_ipv6_clothes_is_the_same_address(address: ipaddress.IPv4Address) -> None:
    assert is_public(f"::ffff:{address}") == is_public(f"64:ff9b::{address}") == is_public(str(address))


@pytest.mark.parametrize(
    ("host", "error"),
    [("localhost", PrivateAddressError), ("127.1", PrivateAddressError), ("no-such-host.invalid", UnknownHostError)],
)
def test_connections_are_checked_after_resolution(server: Any, host: str, error: type[Exception]) -> None:
    async def ask() -> None:
        made = transport(allow_private_hosts=False, connections=1)
        async with httpx2.AsyncClient(transport=made, trust_env=False) as client:
            await client.get(server.url("/", host))

    with pytest.raises(error):
        asyncio.run(ask())
    assert server.log == []


def test_private_hosts_if_wanted(server: Any) -> None:
    async def ask() -> int:
        made = transport(allow_private_hosts=True, connections=1)
        async with httpx2.AsyncClient(transport=made, trust_env=False) as client:
            return (await client.get(server.url("/"))).status_code

    assert asyncio.run(ask()) == 404
