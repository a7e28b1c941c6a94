"""A process that forks loader processes: it has imported what they need, and nothing else of its parent's.

The parent's threads, locks, GPU and open files aren't in it, and the parent's main module isn't run again (as
``multiprocessing`` would). It ends with its socket, so also when the parent is killed. ``python -m
tilewright.train.loader_server FD`` is started by ``LoaderServer`` alone.
"""

import atexit
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import torch

from tilewright.train.loader_work import serve

_PATIENCE_S = 10.0


class LoaderServer:
    """The server, as its parent sees it; it may be used from several threads."""

    def __init__(self) -> None:
        self._socket, theirs = Pipe()
        command = [sys.executable, "-P", "-m", __name__, str(theirs.fileno())]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        theirs.close()
        self._asking = threading.Lock()
        atexit.register(self._end)

    def start(self) -> tuple[int, Connection]:
        """(id, socket) of a new process that runs ``serve``. Raises EOFError or OSError if the server is gone."""
        own, theirs = Pipe()
        with theirs, self._asking:
            self._socket.send_bytes(pickle.dumps("start"))
            send_handle(self._socket, theirs.fileno(), None)
            return pickle.loads(self._socket.recv_bytes()), own

    def exit_code(self, pid: int, patience_s: float) -> int | None:
        """The exit status of a process, or minus the number of the signal that killed it; None if nothing is known.

        One that still runs after ``patience_s`` is killed.
        """
        with self._asking, contextlib.suppress(EOFError, OSError):
            self._socket.send_bytes(pickle.dumps((pid, patience_s)))
            code: int | None = pickle.loads(self._socket.recv_bytes())
            return code
        return None

    def _end(self) -> None:
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE_S)


@cache
def loader_server() -> LoaderServer:
    """The server of this process, started by the first call, which returns at once."""
    return LoaderServer()


def _run(own: Connection) -> None:
    """Answer the parent until its socket ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to a whole group: the parent decides what it means
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            request: Any = pickle.loads(own.recv_bytes())
            if request == "start":
                file = recv_handle(own)
                pid = os.fork()
                if pid == 0:
                    own.close()
                    _serve_and_exit(Connection(file))
                os.close(file)
                own.send_bytes(pickle.dumps(pid))
            else:
                own.send_bytes(pickle.dumps(_waited(*request)))


def _serve_and_exit(own: Connection) -> None:
    """Never returns: what the server would do next is not for the child."""
    status = 1
    try:
        serve(own)
        status = 0
    finally:
        if status:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        sys.stderr.flush()
        os._exit(status)


def _waited(pid: int, patience_s: float) -> int | None:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return None
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)  # still our child, so no other process has its id
        time.sleep(0.005)


if __name__ == "__main__":
    _run(Connection(int(sys.argv[1])))
