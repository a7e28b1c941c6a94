"""Why a URL couldn't be had: one named reason each, counted by the stage."""

from tilewright.configs.items import ItemError


class FetchError(ItemError):
    """A URL that can't be had.

    ``reason`` is what is counted, ``detail`` says what was found. ``final``: the server (or a limit) has spoken, so it
    isn't asked again; else a later run tries again. ``retry_after_s``: how long the server asks to wait, if it does.
    """

    def __init__(self, reason: str, detail: str, *, final: bool, retry_after_s: float | None = None) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail, self.final, self.retry_after_s = reason, detail, final, retry_after_s
