"""How a llama.cpp server's process ends: always at once and without taking the server down; its command ends with it.

``xllamacpp`` is a stand-in here, without a model: it tells on stdout if the interpreter takes it down.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

STAND_IN = """
import atexit
from types import SimpleNamespace

def CommonParams():
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace())

def Server(params):
    if open(params.model.path, "rb").read() == b"GGUF":
        raise RuntimeError("Failed to init server")
    atexit.register(print, "taken down", flush=True)
    return SimpleNamespace(listening_address="http://127.0.0.1:1")
"""
STUBBORN = (
    "import os, signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: print('asked to end', flush=True));"
    "print(os.getpid(), flush=True); [time.sleep(1) for _ in range(600)]"
)
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    (tmp_path / "stand_in").mkdir()
    (tmp_path / "stand_in/xllamacpp.py").write_text(STAND_IN)
    (tmp_path / "model.gguf").write_bytes(b"GGUF and more")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")

    def started(*arguments: str, model: str = "model.gguf") -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tilewright.data_gen.llm.llama_server", str(tmp_path / model), *arguments]
        environment = os.environ | {"PYTHONPATH": str(tmp_path / "stand_in")}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)

    return started


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """(status, stdout, stderr); a process that hangs is killed."""
    try:
        said, error = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, said, error


def test_a_served_model_ends_at_ctrl_c(start: Start) -> None:
    process = start()
    assert process.stdout is not None
    assert process.stdout.readline() == "http://127.0.0.1:1/v1\n"
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "", "")


def test_what_cannot_be_served_or_run_is_one_message(start: Start) -> None:
    for model, arguments, message in (
        ("broken.gguf", (), "broken.gguf: wanted a model that llama.cpp can serve: Failed to init server"),
        ("model.gguf", ("--slots", "0"), "wanted context, slots and threads of 1 or more, found 1024, 0 and 1"),
        ("model.gguf", ("--", "no-such-command", "{url}"), "no-such-command: wanted a command that can be run"),
    ):
        status, said, error = ended(start(*arguments, model=model))
        assert (status, said) == (2, "") and message in error and error.count("\n") == 1, error


def test_a_command_that_a_signal_ended_has_the_status_of_a_shell(start: Start) -> None:
    dies = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert ended(start("--", sys.executable, "-c", dies)) == (128 + signal.SIGKILL, "", "")


def test_a_command_that_will_not_end_is_killed_when_asked_twice(start: Start) -> None:
    process = start("--", sys.executable, "-c", STUBBORN)
    assert process.stdout is not None
    command = int(process.stdout.readline())
    process.terminate()
    assert process.stdout.readline() == "asked to end\n"
    process.terminate()
    assert ended(process) == (128 + signal.SIGTERM, "", "")
    with pytest.raises(ProcessLookupError):
        os.kill(command, 0)
