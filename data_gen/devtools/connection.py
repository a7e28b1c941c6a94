"""Calls and events of a Chromium over its DevTools pipe: one connection, a session for each target."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.data_gen.devtools.pipe import DevToolsPipe

Params = Mapping[str, Any]
OnEvent = Callable[[str, dict[str, Any]], None]  # (method, params); called in the order of arrival, mustn't raise
ROOT = ""  # session id of the browser itself


class DevToolsError(RuntimeError):
    """The browser refused a call, or will never answer it."""


class Session:
    """What is said to one target: a page, a frame in a process of its own, a worker; or the browser itself."""

    def __init__(self, connection: "Connection", session_id: str, on_event: OnEvent) -> None:
        self._connection, self.session_id, self.on_event = connection, session_id, on_event

    async def send(self, method: str, params: Params | None = None) -> dict[str, Any]:
        """The result of a call. Raises DevToolsError."""
        return await self._connection.call(self.session_id, method, params or {})

    def post(self, method: str, params: Params | None = None) -> None:
        """Call without waiting; how it ends doesn't matter."""
        self._connection.post(self.session_id, method, params or {})


class Connection:
    """The messages of one browser. ``root`` is the session of the browser itself; ``ended`` is set when it is gone."""

    def __init__(self, read_fd: int, write_fd: int, on_event: OnEvent) -> None:
        """Takes both descriptors over."""
        self._calls: dict[int, tuple[str, str, asyncio.Future[dict[str, Any]]]] = {}
        self._sessions: dict[str, Session] = {}
        self._last_id = 0
        self.ended = asyncio.Event()
        self._reason = ""
        self.root = self.attach(ROOT, on_event)
        self._pipe = DevToolsPipe(read_fd, write_fd, self._received, self._closed)

    def attach(self, session_id: str, on_event: OnEvent) -> Session:
        """The session of a target that was attached to; its events go to ``on_event``."""
        session = self._sessions[session_id] = Session(self, session_id, on_event)
        return session

    def detach(self, session_id: str, reason: str) -> None:
        """Forget a session; its open calls fail."""
        self._sessions.pop(session_id, None)
        for call_id in [call_id for call_id, call in self._calls.items() if call[0] == session_id]:
            self._fail(call_id, reason)

    async def call(self, session_id: str, method: str, params: Params) -> dict[str, Any]:
        """The result of a call. Raises DevToolsError."""
        if self.ended.is_set():
            raise DevToolsError(f"{method}: {self._reason}")
        if session_id not in self._sessions:
            raise DevToolsError(f"{method}: its target is closed")
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        call_id = self._last_id + 1  # known before it is sent: sending may find that the browser is gone
        self._calls[call_id] = session_id, method, future
        try:
            self._send(session_id, method, params)
            return await future
        finally:
            self._calls.pop(call_id, None)

    def post(self, session_id: str, method: str, params: Params) -> None:
        """Call without waiting for the answer."""
        if session_id in self._sessions:
            self._send(session_id, method, params)

    def close(self, reason: str) -> None:
        """Close the pipe: Chromium ends when it sees that."""
        self._pipe.close(reason)

    def _send(self, session_id: str, method: str, params: Params) -> int:
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        self._pipe.send(message if session_id == ROOT else message | {"sessionId": session_id})
        return self._last_id

    def _received(self, message: Any) -> None:
        if not isinstance(message, dict):
            return
        if "id" in message:
            self._answered(message)
            return
        session = self._sessions.get(message.get("sessionId", ROOT))
        if session is not None:
            session.on_event(str(message.get("method")), message.get("params") or {})

    def _answered(self, message: dict[str, Any]) -> None:
        if "error" in message:
            self._fail(message["id"], str(message["error"].get("message")))
            return
        _, _, future = self._calls.get(message["id"], (None, None, None))
        if future is not None and not future.done():
            future.set_result(message.get("result") or {})

    def _fail(self, call_id: int, reason: str) -> None:
        _, method, future = self._calls.get(call_id, (None, None, None))
        if future is not None and not future.done():
            future.set_exception(DevToolsError(f"{method}: {reason}"))

    def _closed(self, reason: str) -> None:
        self._reason = reason
        self.ended.set()
        for call_id in list(self._calls):
            self._fail(call_id, reason)


async def all_sent(session: Session, calls: Mapping[str, Params]) -> None:
    """Make calls at once and wait for all. Raises DevToolsError, of the first that failed."""
    sending = [asyncio.ensure_future(session.send(method, params)) for method, params in calls.items()]
    try:
        await asyncio.gather(*sending)
    finally:
        for task in sending:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*sending, return_exceptions=True)
