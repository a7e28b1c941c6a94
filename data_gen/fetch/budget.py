"""How long the requests of one page may take together."""

from tilewright.data_gen.fetch.failure import FetchError

PAGE_TIMEOUT = "page_timeout"


class Budget:
    """Seconds for the requests of a page and of what it shows; time waited for politeness isn't spent."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s, self._spent_s = limit_s, 0.0

    @property
    def is_spent(self) -> bool:
        """Whether no further request may start."""
        return self._spent_s >= self._limit_s

    def check(self) -> None:
        """Raise FetchError (not a final one) if it is spent."""
        if self.is_spent:
            raise FetchError(PAGE_TIMEOUT, "the page's requests took page_timeout_s", final=False)

    def spend(self, seconds: float) -> None:
        """A request took so long."""
        self._spent_s += seconds
