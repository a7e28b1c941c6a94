"""One URL from its server: politely, within limits, with redirects and repeated tries; every failure named."""

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from http.cookiejar import DefaultCookiePolicy
from math import inf
from typing import IO, Any
from urllib.parse import urlsplit

import httpx2

from tilewright.data_gen.fetch.body import ACCEPT_ENCODING, read_body
from tilewright.data_gen.fetch.budget import Budget
from tilewright.data_gen.fetch.failure import FetchError
from tilewright.data_gen.fetch.guard import PrivateAddressError, UnknownHostError, transport
from tilewright.data_gen.fetch.politeness import Gates
from tilewright.data_gen.fetch.robots import MAX_BYTES, Robots
from tilewright.data_gen.fetch.settings import Limits, Politeness
from tilewright.data_gen.sources.web_address import web_address

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_TRY_AGAIN = frozenset((408, 425, 429, *range(500, 600)))
_HOST_WAITS = frozenset((429, 503))  # these speak of the host, not of one URL
_ROBOTS_REDIRECTS = 5
_NETWORK = (httpx2.HTTPError, httpx2.StreamError, OSError)


@dataclass(frozen=True)
class Answer:
    """What came of a URL: the last answer, its body if the status is 200, and the addresses passed on the way."""

    final_url: str
    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    redirects: tuple[str, ...] = ()

    @property
    def media_type(self) -> str:
        """Of the Content-Type header, lower case, "" without one."""
        return _content_type(self.headers).get_content_type() if "content-type" in self.headers else ""

    @property
    def charset(self) -> str:
        """Of the Content-Type header, "" without one."""
        if "content-type" not in self.headers:
            return ""
        try:
            return _content_type(self.headers).get_content_charset("")
        except (TypeError, ValueError, LookupError):  # of RFC 2231's numbered parts, some of them without a number
            return ""


@dataclass(frozen=True)
class Ask:
    """How one kind of URL is asked for: ``accept`` goes into the header, ``check`` raises FetchError for an answer that
    isn't wanted, before its body is read. ``validators`` (headers) are sent to ``validated_url`` only.
    """

    max_bytes: int
    accept: str
    check: Callable[[Answer], None] = lambda answer: None
    validators: Mapping[str, str] = field(default_factory=dict)
    validated_url: str = ""
    cut: bool = False


class Client:
    """Asks servers, all in one event loop. ``log`` gets a line of JSON a request."""

    def __init__(
        self,
        user_agent: str,
        politeness: Politeness,
        limits: Limits,
        *,
        allow_private_hosts: bool = False,
        log: IO[str] | None = None,
    ) -> None:
        self._politeness, self._limits, self._log = politeness, limits, log
        self._gates = Gates(politeness)
        self._robots = Robots(user_agent, self._read_robots)
        self._http = httpx2.AsyncClient(
            transport=transport(allow_private_hosts=allow_private_hosts, connections=politeness.connections),
            headers={"User-Agent": user_agent, "Accept-Encoding": ACCEPT_ENCODING},
            timeout=None,  # bounded as a whole, by request_timeout_s
            follow_redirects=False,  # each step is asked of robots.txt and waits for its host
            trust_env=False,
        )
        self._http.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # what one page says, no other hears

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def get(self, url: str, ask: Ask, budget: Budget) -> Answer:
        """The answer to ``url`` (as ``web_address`` spells it): 200 with its body, or another status, but no redirect
        and no server's trouble. ``budget`` pays for the requests. Raises FetchError.
        """
        return await self._follow(url, ask, self._limits.redirects, budget, self._respect_robots)

    async def _follow(
        self,
        url: str,
        ask: Ask,
        redirects: int,
        budget: Budget,
        before: Callable[[str], Any] | None,
    ) -> Answer:
        passed: list[str] = []
        while True:
            if before is not None:
                await before(url)
            answer = await self._with_retries(url, ask, budget)
            location = answer.headers.get("location", "")
            if answer.status not in _REDIRECTS or not location:
                return Answer(url, answer.status, answer.headers, answer.body, tuple(passed))
            passed.append(url)
            url = web_address(url, location) or url
            if url in passed:
                raise FetchError("redirect_loop", f"{url} leads back to itself, or nowhere", final=True)
            if len(passed) > redirects:
                raise FetchError("too_many_redirects", f"more than {redirects}", final=True)

    async def _respect_robots(self, url: str) -> None:
        delay_s = await self._robots.delay_s(url)
        if delay_s > self._politeness.max_crawl_delay_s:
            raise FetchError("crawl_delay_too_long", f"robots.txt asks for {delay_s:g} s", final=False)
        gate = self._gates.of(_host(url))
        gate.delay_s = max(gate.delay_s, delay_s)

    async def _read_robots(self, url: str) -> bytes:
        ask = Ask(MAX_BYTES, "text/plain,*/*;q=0.5", cut=True)
        answer = await self._follow(url, ask, _ROBOTS_REDIRECTS, Budget(inf), None)
        return answer.body

    async def _with_retries(self, url: str, ask: Ask, budget: Budget) -> Answer:
        for attempt in range(self._politeness.retries + 1):
            try:
                return await self._once(url, ask, budget)
            except FetchError as error:
                asked_s = error.retry_after_s or 0.0
                is_last = attempt == self._politeness.retries
                if error.final or is_last or budget.is_spent or asked_s > self._politeness.max_retry_after_s:
                    raise
                backoff_s = min(self._politeness.backoff_s * 2**attempt, self._politeness.max_backoff_s)
                wait_s = max(asked_s, backoff_s * random.uniform(0.5, 1.5))
                if error.reason in {f"status_{status}" for status in _HOST_WAITS}:
                    self._gates.of(_host(url)).back_off(wait_s)
                else:
                    await asyncio.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, url: str, ask: Ask, budget: Budget) -> Answer:
        async with self._gates.of(_host(url)).turn():
            budget.check()
            started, outcome = time.monotonic(), "cancelled"
            try:
                async with asyncio.timeout(self._limits.request_timeout_s):
                    answer = await self._request(url, ask)
                outcome = str(answer.status)
                return answer
            except FetchError as error:
                outcome = error.reason
                raise
            except (*_NETWORK, PrivateAddressError, UnknownHostError, httpx2.InvalidURL) as error:
                failure = _failure(error, _host(url))
                outcome = failure.reason
                raise failure from error
            finally:
                seconds = time.monotonic() - started
                budget.spend(seconds)
                self._note(url, outcome, seconds)

    async def _request(self, url: str, ask: Ask) -> Answer:
        headers = {"Accept": ask.accept} | (dict(ask.validators) if url == ask.validated_url else {})
        async with self._http.stream("GET", url, headers=headers) as response:
            answer = Answer(url, response.status_code, dict(response.headers))
            if answer.status in _TRY_AGAIN:
                asked = response.headers.get("retry-after", "")
                raise FetchError(
                    f"status_{answer.status}",
                    f"the server answered {answer.status}" + (f", Retry-After: {asked[:80]}" if asked else ""),
                    final=False,
                    retry_after_s=_retry_after_s(asked),
                )
            if answer.status != 200:
                return answer
            ask.check(answer)
            length = response.headers.get("content-length", "")
            if length.isdecimal() and int(length[:20]) > ask.max_bytes and not ask.cut:
                raise FetchError("too_large", f"more than {ask.max_bytes} bytes", final=True)
            body = await read_body(response, ask.max_bytes, cut=ask.cut)
            return Answer(url, answer.status, answer.headers, body)

    def _note(self, url: str, outcome: str, seconds: float) -> None:
        if self._log is not None:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            entry = {"at": at, "url": url, "outcome": outcome, "seconds": round(seconds, 3)}
            self._log.write(json.dumps(entry) + "\n")
            self._log.flush()


def _failure(error: Exception, host: str) -> FetchError:
    if isinstance(error, (TimeoutError, httpx2.TimeoutException)):
        return FetchError("timeout", "no whole answer within request_timeout_s", final=False)
    if isinstance(error, PrivateAddressError):
        return FetchError("private_address", f"{host} isn't on the public internet", final=True)
    if isinstance(error, UnknownHostError):
        return FetchError("unknown_host", f"{host} has no address", final=False)
    if isinstance(error, httpx2.InvalidURL):
        return FetchError("not_a_web_address", "no HTTP client can ask for it", final=True)
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        detail = f"the certificate of {host} isn't trusted here; SSL_CERT_FILE can name other authorities"
        return FetchError("bad_certificate", detail, final=False)
    return FetchError("connection_failed", type(error).__name__, final=False)


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _content_type(headers: Mapping[str, str]) -> Message:
    message = Message()
    message["content-type"] = "".join(char for char in headers["content-type"] if char.isprintable())
    return message


def _retry_after_s(value: str) -> float | None:
    """Seconds that a Retry-After header asks for (a number, or a date); None if it says nothing."""
    if value.strip().isdecimal():
        return float(value.strip()[:12])
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
