"""robots.txt (RFC 9309): what a host lets this user agent fetch, and how fast."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from protego import Protego

from tilewright.data_gen.fetch.failure import FetchError

MAX_BYTES = 512 * 1024  # what comes after is not read (RFC 9309, 2.5: at least 500 KiB)
_FOR_EVER_S = 10**9  # integers of any length may be asked for
ReadRobots = Callable[[str], Awaitable[bytes]]


class Robots:
    """The rules of each site, read once by ``read(url)``: the file's bytes, b"" where there is none (4xx).

    It raises FetchError for 5xx, 429 and no answer at all: then nothing may be fetched (a server in trouble isn't one
    without rules).
    """

    def __init__(self, user_agent: str, read: ReadRobots) -> None:
        self._product = user_agent.partition("/")[0].split()[0]
        self._read = read
        self._sites: dict[str, asyncio.Task[Protego]] = {}

    async def delay_s(self, url: str) -> float:
        """The Crawl-delay (or Request-rate) for this user agent, 0 without. FetchError if ``url`` is forbidden."""
        parts = urlsplit(url)
        site = f"{parts.scheme}://{parts.netloc}"
        if site not in self._sites:
            self._sites[site] = asyncio.create_task(self._rules(site))
        rules = await self._sites[site]
        if not rules.can_fetch(url, self._product):
            raise FetchError("robots_disallowed", f"{site}/robots.txt forbids it to {self._product}", final=True)
        rate = rules.request_rate(self._product)
        per_request_s = min(rate.seconds, _FOR_EVER_S) / rate.requests if rate is not None and rate.requests else 0.0
        return max(rules.crawl_delay(self._product) or 0.0, per_request_s)

    async def _rules(self, site: str) -> Protego:
        try:
            text = await self._read(f"{site}/robots.txt")
        except FetchError as error:
            if error.reason in ("private_address", "unknown_host"):
                raise
            raise FetchError("robots_unreachable", f"{site}/robots.txt: {error.detail}", final=False) from error
        return Protego.parse(text.decode("utf-8-sig", errors="replace"))
