"""Processes that make model inputs: each answers one request after another over a socket of its own.

No lock or queue is shared between them, so the death of one is seen at once, as the end of its socket. A process ends
with its socket, so also when this one is killed.
"""

import contextlib
import os
import pickle
import queue
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection

from tilewright.configs.errors import UserError
from tilewright.train.batch import Batch
from tilewright.train.loader_server import loader_server
from tilewright.train.loader_work import received_batches
from tilewright.train.step_inputs import Piece, TileInputs

_PATIENCE_S = 10.0


class LoaderError(UserError, RuntimeError):
    """A loader process ended before its work was done."""


def prepare() -> None:
    """Start the server that loader processes are forked from; returns at once, and does nothing if it runs.

    Called before a model is loaded, it has imported its modules by the time it is needed.
    """
    loader_server()


class LoaderProcesses:
    """``count`` processes that make pieces with ``tiles``, each started by its first piece; ``close`` ends them."""

    def __init__(self, tiles: TileInputs, count: int) -> None:
        prepare()
        self._workers = [_Worker(tiles) for _ in range(count)]
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="loader")

    @property
    def pids(self) -> list[int]:
        """Ids of the processes that have been started."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def submit(self, piece: Piece) -> "Future[list[Batch]]":
        """The piece's batches, in time. The future raises the process's own InputError, or LoaderError if it ended."""
        return self._threads.submit(self._make, piece)

    def close(self) -> None:
        """End the processes at once and wait until they are gone; pieces that aren't made yet are given up."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.end()
        self._threads.shutdown()
        for worker in self._workers:
            worker.join()

    def _make(self, piece: Piece) -> list[Batch]:
        worker = self._idle.get()
        try:
            return worker.make(piece)
        finally:
            self._idle.put(worker)


class _Worker:
    """One process, as its parent sees it."""

    def __init__(self, tiles: TileInputs) -> None:
        self._tiles = tiles
        self.pid: int | None = None
        self._socket: Connection | None = None
        self._code: int | None = None
        self._starting = threading.Lock()
        self._ended = False

    def make(self, piece: Piece) -> list[Batch]:
        """The piece's batches. Raises the InputError that it raised there, LoaderError if the process ends."""
        try:
            own = self._started()
            own.send_bytes(pickle.dumps(piece))
            return received_batches(own)
        except (EOFError, OSError) as error:
            raise LoaderError(self._last_words()) from error

    def _started(self) -> Connection:
        with self._starting:
            if self._ended:
                raise LoaderError("loader process: its work is over")
            if self._socket is None:
                self.pid, self._socket = loader_server().start()
                self._socket.send_bytes(pickle.dumps(self._tiles))
            return self._socket

    def _last_words(self) -> str:
        code = self._exit_code()
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit status {code}"
        return (
            f"loader process {self.pid} {how} before its work was done: see its own message above, or the system's log"
            " (is there too little memory? lower `workers`)"
        )

    def end(self) -> None:
        """Tell the process to end; whoever waits for it here gets a LoaderError."""
        with self._starting:
            self._ended = True
            if self._socket is not None:
                _shut_down(self._socket)

    def join(self) -> None:
        """Wait for the end of the process; one that doesn't end by itself is killed."""
        if self._socket is None:
            return
        self._socket.close()
        self._exit_code()

    def _exit_code(self) -> int | None:
        if self._code is None and self.pid is not None:
            self._code = loader_server().exit_code(self.pid, _PATIENCE_S)
        return self._code


def _shut_down(own: Connection) -> None:
    """End a socket in both directions, also under whoever waits for it."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(own.fileno())) as same:
        same.shutdown(socket.SHUT_RDWR)
