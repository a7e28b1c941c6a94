"""Whole messages over the two pipes that a Chromium reads its commands from and writes its answers to."""

import asyncio
import contextlib
import fcntl
import os
from collections import deque
from collections.abc import Callable
from typing import Any

from tilewright.data_gen.devtools.cbor import HEADER_BYTES, CborError, decode, encode, frame_bytes

READ_BYTES = 1 << 20
MAX_FRAME_BYTES = 1 << 30  # a picture of the largest page that is rendered takes less
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", None)  # of Linux: a picture of a tile in one read


class DevToolsPipe:
    """Sends and receives messages; ``received`` gets each, ``closed`` is told once why there will be no more."""

    def __init__(
        self, read_fd: int, write_fd: int, received: Callable[[dict[str, Any]], None], closed: Callable[[str], None]
    ) -> None:
        """Takes both descriptors over."""
        self._read_fd, self._write_fd = read_fd, write_fd
        self._received, self._closed = received, closed
        self._loop = asyncio.get_running_loop()
        self._arrived = bytearray()
        self._waiting: deque[memoryview] = deque()
        self._open = True
        for fd in (read_fd, write_fd):
            os.set_blocking(fd, False)
        if _SET_PIPE_SIZE is not None:
            with contextlib.suppress(OSError):  # a user's pipes may not take more than so much together
                fcntl.fcntl(read_fd, _SET_PIPE_SIZE, READ_BYTES)
        self._loop.add_reader(read_fd, self._read)

    def send(self, message: dict[str, Any]) -> None:
        """Write ``message`` when there is room. Nothing happens on a closed pipe."""
        if self._open:
            self._waiting.append(memoryview(encode(message)))
            if len(self._waiting) == 1:
                self._write()

    def close(self, reason: str) -> None:
        """Close both ends. Does nothing the second time."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._read_fd)
        self._loop.remove_writer(self._write_fd)
        os.close(self._read_fd)
        os.close(self._write_fd)
        self._closed(reason)

    def _write(self) -> None:
        try:
            while self._waiting:
                written = os.write(self._write_fd, self._waiting[0])
                if written < len(self._waiting[0]):
                    self._waiting[0] = self._waiting[0][written:]
                else:
                    self._waiting.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._write_fd, self._write)
            return
        except OSError as error:
            self.close(f"can't write to the browser: {error}")
            return
        self._loop.remove_writer(self._write_fd)

    def _read(self) -> None:
        try:
            content = os.read(self._read_fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(f"can't read from the browser: {error}")
            return
        if not content:
            self.close("the browser has closed its pipe" if not self._arrived else "the browser stopped in a message")
            return
        self._arrived += content
        try:
            self._take_frames()
        except CborError as error:
            self.close(str(error))

    def _take_frames(self) -> None:
        while self._open and len(self._arrived) >= HEADER_BYTES:
            size = frame_bytes(self._arrived[:HEADER_BYTES])
            if size > MAX_FRAME_BYTES:
                raise CborError(f"wanted messages of at most {MAX_FRAME_BYTES} bytes, found one of {size}")
            if len(self._arrived) < size:
                return
            message = decode(self._arrived[:size])
            del self._arrived[:size]
            self._received(message)
