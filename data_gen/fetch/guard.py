"""Connections to public addresses only: a URL list, or a page in it, can't reach into the network we stand in."""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any

import httpcore2
import httpx2

from tilewright.configs.errors import InputError

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_MAX_ADDRESSES = 4  # of one host that are tried
_KEEP_ALIVE_S = 15.0


class PrivateAddressError(Exception):
    """A host that stands in a private, local or reserved network."""


class UnknownHostError(Exception):
    """A host without an address."""


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet, also the one wrapped in an IPv6 address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    inner: list[Any] = []
    if isinstance(ip, ipaddress.IPv6Address):
        inner = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
        if ip in _NAT64:
            inner.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
    return ip.is_global and not ip.is_multicast and all(is_public(str(part)) for part in inner if part is not None)


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Resolves a host itself and connects to an address that it has checked: no second look-up can give another."""

    def __init__(self) -> None:
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        error: Exception = UnknownHostError(host)
        for address in await self._addresses(host, port):
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.ConnectError as failed:
                error = failed
        raise error

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise UnknownHostError(host) from error
        addresses = list(dict.fromkeys(str(row[4][0]) for row in found))
        if not all(map(is_public, addresses)):
            raise PrivateAddressError(host)
        return addresses[:_MAX_ADDRESSES]

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def transport(*, allow_private_hosts: bool, connections: int) -> httpx2.AsyncBaseTransport:
    """An HTTP/1.1 transport; unless ``allow_private_hosts``, it connects to public addresses only."""
    made = httpx2.AsyncHTTPTransport(trust_env=False)
    if not isinstance(getattr(made, "_pool", None), httpcore2.AsyncConnectionPool):
        raise InputError(f"httpx2 {httpx2.__version__} can't be guarded: fetch_pages needs another version of it")
    made._pool = httpcore2.AsyncConnectionPool(
        ssl_context=httpx2.create_ssl_context(),
        max_connections=connections,
        max_keepalive_connections=connections,
        keepalive_expiry=_KEEP_ALIVE_S,
        network_backend=httpcore2.AnyIOBackend() if allow_private_hosts else _GuardedBackend(),
    )
    return made
