"""SIGTERM becomes a request and is given back; threads are restored; waiting is measured."""

import os
import signal
import threading
import time

import pytest
import torch

from tilewright.configs.errors import InputError
from tilewright.train.run_control import StopRequest, Stopwatch, stop_on_sigterm, torch_threads


def test_sigterm_becomes_a_request_and_the_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_sigterm() as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested
    assert signal.getsignal(signal.SIGTERM) is before


def test_another_thread_leaves_signals_alone() -> None:
    seen: list[StopRequest] = []

    def work() -> None:
        with stop_on_sigterm() as stop:
            seen.append(stop)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [StopRequest()]


def test_threads_are_restored_also_after_an_error() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        _ = 1 / 0
    assert torch.get_num_threads() == before
    with torch_threads(None):
        assert torch.get_num_threads() == before


def test_more_threads_than_a_system_starts_are_refused() -> None:
    with pytest.raises(InputError, match="threads: wanted at most 1024, or null, found 100000"), torch_threads(10**5):
        pass


def test_waiting_is_a_share_of_the_step() -> None:
    waited = [0.0]
    watch = Stopwatch(lambda: waited[0])
    assert watch.data_wait_share == 0
    time.sleep(0.02)
    waited[0] = 0.01
    lap = watch.lap(4, 80)
    assert 0 < lap["data_wait_share"] <= 0.5 and 0 < lap["samples_per_s"] <= 200
    watch.restart()
    time.sleep(0.01)
    assert watch.lap(4, 80)["data_wait_share"] == 0 < watch.data_wait_share < lap["data_wait_share"]
