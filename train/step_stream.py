"""StepInputs made ahead of the training loop, by loader processes or in a thread."""

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from tilewright.train.batch import Batch
from tilewright.train.loader_processes import LoaderProcesses
from tilewright.train.step_inputs import Piece, StepInputMaker, StepInputs, StepTask, TileInputs

_Promised = tuple[StepTask, list[Piece], list["Future[list[Batch]]"]]


class StepStream:
    """StepInputs of steps ``first`` to ``last`` (exclusive), in order, made up to ``ahead`` steps early.

    ``workers`` processes decode, resize and tokenise (0: a thread does); the inputs are the same for any number. With
    a GPU (``pin``, by default where torch sees one) they lie in page-locked memory. ``wait_s`` is the time that the
    consumer has waited for data so far. Iterating raises what ``make`` raises, and LoaderError if a process ends; it
    leaves no process behind when it ends, is closed or fails.
    """

    def __init__(
        self, make: StepInputMaker, first: int, last: int, *, workers: int = 0, ahead: int = 2, pin: bool | None = None
    ) -> None:
        if workers < 0 or ahead < 0:
            raise ValueError(f"wanted workers and ahead >= 0, found {workers} and {ahead}")
        self.make, self.first, self.last, self.workers, self.ahead = make, first, last, workers, ahead
        self.pin = torch.cuda.is_available() if pin is None else pin
        self.wait_s = 0.0

    def __iter__(self) -> Iterator[StepInputs]:
        loader = LoaderProcesses(self.make.tiles, self.workers) if self.workers else _LoaderThread(self.make.tiles)
        planner, assembler = ThreadPoolExecutor(1, "planner"), ThreadPoolExecutor(1, "assembler")
        pending: deque[Future[StepInputs]] = deque()
        try:
            for step in range(self.first, self.last):
                promised = planner.submit(self._promise, step, loader)
                pending.append(assembler.submit(self._assemble, promised))
                if len(pending) > self.ahead:
                    yield self._awaited(pending.popleft())
            while pending:
                yield self._awaited(pending.popleft())
        finally:
            for pool in (planner, assembler):
                pool.shutdown(wait=False, cancel_futures=True)
            loader.close()  # ends what the two threads may be waiting for
            for pool in (planner, assembler):
                pool.shutdown()

    def _awaited(self, future: "Future[StepInputs]") -> StepInputs:
        started = time.perf_counter()
        try:
            return future.result()
        finally:
            self.wait_s += time.perf_counter() - started

    def _promise(self, step: int, loader: "LoaderProcesses | _LoaderThread") -> _Promised:
        task = self.make.task(step)
        pieces = self.make.pieces(task)
        return task, pieces, [loader.submit(piece) for piece in pieces]

    def _assemble(self, promised: "Future[_Promised]") -> StepInputs:
        task, pieces, made = promised.result()
        return self.make.inputs(task, pieces, [future.result() for future in made], pin=self.pin)


class _LoaderThread:
    """A thread that makes pieces one after another."""

    def __init__(self, tiles: TileInputs) -> None:
        self._tiles, self._thread = tiles, ThreadPoolExecutor(1, "loader")

    def submit(self, piece: Piece) -> "Future[list[Batch]]":
        """The piece's batches, in time."""
        return self._thread.submit(self._tiles.make, piece)

    def close(self) -> None:
        """Wait for the piece at hand; others are given up."""
        self._thread.shutdown(cancel_futures=True)
