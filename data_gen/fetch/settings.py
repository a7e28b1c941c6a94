"""How a fetch behaves towards servers, and what it accepts from them."""

from dataclasses import dataclass

from tilewright.configs.stage import execution


@dataclass(frozen=True)
class Politeness:
    """Towards one host: at least ``delay_s`` (or its Crawl-delay, if longer) between the starts of two requests, and at
    most ``connections_per_host`` at a time; ``connections`` to all hosts together.

    A host whose Crawl-delay is above ``max_crawl_delay_s`` isn't fetched. After 429, 5xx, a timeout or a broken
    connection a request is repeated up to ``retries`` times, after ``backoff_s`` doubled each time up to
    ``max_backoff_s``, give or take half; or as Retry-After says, which above ``max_retry_after_s`` is a failure.
    """

    delay_s: float = execution(default=1.0)
    connections_per_host: int = execution(default=2)
    connections: int = execution(default=32)
    max_crawl_delay_s: float = execution(default=60.0)
    retries: int = execution(default=4)
    backoff_s: float = execution(default=1.0)
    max_backoff_s: float = execution(default=60.0)
    max_retry_after_s: float = execution(default=120.0)

    def __post_init__(self) -> None:
        if min(self.connections_per_host, self.connections) < 1:
            raise ValueError("politeness: wanted at least 1 connection, a host and in all")
        seconds = (self.delay_s, self.max_crawl_delay_s, self.backoff_s, self.max_backoff_s, self.max_retry_after_s)
        if min(*seconds, self.retries) < 0:
            raise ValueError("politeness: wanted delays and retries of at least 0")


@dataclass(frozen=True)
class Limits:
    """What is accepted of one page or resource (bytes both as sent and after decompression).

    ``request_timeout_s`` bounds one request, from the connection to the last byte; ``page_timeout_s`` the time all
    requests of a page take together, waits for politeness not counted: what is left of its resources then is left out.
    """

    page_bytes: int = 10_000_000
    resource_bytes: int = 20_000_000
    resources_per_page: int = 500
    redirects: int = 10
    request_timeout_s: float = execution(default=30.0)
    page_timeout_s: float = execution(default=300.0)

    def __post_init__(self) -> None:
        if min(self.page_bytes, self.resource_bytes) < 1 or min(self.resources_per_page, self.redirects) < 0:
            raise ValueError("limits: wanted at least 1 byte, and numbers of resources and redirects of at least 0")
        if min(self.request_timeout_s, self.page_timeout_s) <= 0:
            raise ValueError("limits: wanted timeouts above 0 s")
