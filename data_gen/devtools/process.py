"""A Chromium process with its pipes and its profile: started, told to end, killed with all of its own, tidied up."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.data_gen.devtools.connection import Connection, DevToolsError, OnEvent

END_TIMEOUT_S = 5.0
MAX_LOG_BYTES = 20_000
_LOWEST_FD = 10  # above those that the browser wants its pipes at
_FOR_COMMANDS, _FOR_ANSWERS = 3, 4
# The shell outlives the browser and tidies up even if we were killed: a browser whose pipe closes ends by itself.
_WATCH = 'profile=$1; shift; "$@" & exec 3<&- 4>&-; wait; rm -rf "$profile"'


class LaunchError(DevToolsError):
    """The program didn't start, or didn't answer. ``log``: the lines that it said."""

    def __init__(self, reason: str, log: Sequence[str]) -> None:
        super().__init__(reason)
        self.log = list(log)


class ChromiumProcess:
    """A running browser. ``connection`` ends when the process does."""

    def __init__(self, program: str, flags: Sequence[str], on_event: OnEvent) -> None:
        """Start it. Raises OSError."""
        self.profile = Path(tempfile.mkdtemp(prefix="tilewright-chromium-"))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._ended = asyncio.Event()
        ours: list[int] = []
        try:
            self._pid = self._spawn([program, *flags], ours)
        except BaseException:
            for fd in ours:
                os.close(fd)
            self._log.close()
            shutil.rmtree(self.profile, ignore_errors=True)
            raise
        self.connection = Connection(ours[0], ours[1], on_event)
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._wait, args=(loop,), daemon=True).start()

    def _spawn(self, command: Sequence[str], ours: list[int]) -> int:
        """Its process id; ``ours`` gets our ends of the pipes: for answers, for commands."""
        (commands, our_commands), (our_answers, answers) = _high_pipe(), _high_pipe()
        ours += [our_answers, our_commands]
        own = [f"--user-data-dir={self.profile}", "--remote-debugging-pipe=cbor", "--no-startup-window"]
        shell = ["/bin/sh", "-c", _WATCH, "sh", str(self.profile), *command, *own]
        actions: list[Any] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, self._log.fileno(), 2),
            (os.POSIX_SPAWN_DUP2, commands, _FOR_COMMANDS),
            (os.POSIX_SPAWN_DUP2, answers, _FOR_ANSWERS),
        ]
        try:
            return os.posix_spawn(shell[0], shell, os.environ, file_actions=actions, setsid=True)
        finally:
            os.close(commands)
            os.close(answers)

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(self._gone)

    def _gone(self) -> None:
        self._ended.set()
        self.connection.close("the browser has ended")

    def log_lines(self) -> list[str]:
        """What it said first on its error stream."""
        text = os.pread(self._log.fileno(), MAX_LOG_BYTES, 0).decode(errors="replace")
        return [line.strip() for line in text.splitlines() if line.strip()]

    async def version(self, timeout_s: float) -> str:
        """Its version: it has started. Raises LaunchError; then it is gone."""
        try:
            product = (await asyncio.wait_for(self.connection.root.send("Browser.getVersion"), timeout_s))["product"]
            return str(product).rpartition("/")[2]
        except TimeoutError:
            reason = f"it didn't answer within {timeout_s:g} s"
        except DevToolsError as error:
            reason = str(error)
        self.kill()
        await self._ended.wait()
        log = self.log_lines()
        await self.close()
        raise LaunchError(reason, log)

    async def close(self) -> None:
        """Ask it to end, kill it and all its processes if it doesn't, and remove its profile."""
        if self._log.closed:
            return
        self.connection.root.post("Browser.close")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), END_TIMEOUT_S)
        self.kill()
        await self._ended.wait()
        await asyncio.to_thread(self._tidy_up)
        self._log.close()

    def kill(self) -> None:
        """Kill what is left of it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)

    def _tidy_up(self) -> None:
        for _ in range(3):  # processes that are just being killed may still write
            shutil.rmtree(self.profile, ignore_errors=True)
            if not self.profile.exists():
                break


def _high_pipe() -> tuple[int, int]:
    """(read end, write end) of a pipe, inherited by nobody."""
    ends = os.pipe()
    try:
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD) for end in ends]
    finally:
        for end in ends:
            os.close(end)
    return high[0], high[1]
