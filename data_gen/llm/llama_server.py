"""A llama.cpp server with an OpenAI-compatible API on this machine: until it is stopped, or as long as a command runs.

    python -m tilewright.data_gen.llm.llama_server MODEL.gguf [--context 4096] [-- COMMAND ...]

Without a command it prints its base URL and serves. In a command ``{url}`` stands for that URL; the server ends with
the command, whose exit status is its own (128 + n where signal n ended it). Needs the extra ``llama``.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tilewright.configs.errors import InputError

URL = "{url}"
STOP_S = 30.0  # a stopped command may write its journal; then it is killed
_running: list[object] = []  # kept to the end of the process: a server that is taken down amid a request waits for ever


def serve(model: Path, *, context: int, slots: int, threads: int) -> str:
    """The base URL of a server of ``model`` (GGUF) on a free port of this machine, which serves as long as the process.

    ``context``: tokens of a prompt and its reply; ``slots``: requests at a time, each with such a context of its own.
    Raises InputError for a file that isn't there or is no model in GGUF, numbers below 1, and without xllamacpp.
    """
    if not model.is_file() or model.open("rb").read(4) != b"GGUF":
        raise InputError(f"{model}: wanted a model as a GGUF file")
    if min(context, slots, threads) < 1:
        raise InputError(f"wanted context, slots and threads of 1 or more, found {context}, {slots} and {threads}")
    try:
        import xllamacpp  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError("wanted xllamacpp, which serves the model: pip install tilewright[llama]") from error
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = context * slots
    params.n_parallel = slots
    params.cpuparams.n_threads = threads  # spinning threads are slow on a busy machine
    params.warmup = False
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise InputError(f"{model}: wanted a model that llama.cpp can serve: {error}") from error
    _running.append(server)
    return f"{server.listening_address}/v1"


def run_beside(url: str, command: Sequence[str]) -> int:
    """The exit status of ``command``, with ``url`` where it says {url}. It is stopped if this process is.

    Raises InputError for a command that can't be run.
    """
    try:
        process = subprocess.Popen([part.replace(URL, url) for part in command])
    except OSError as error:
        raise InputError(f"{command[0]}: wanted a command that can be run: {error.strerror}") from error
    with process:
        try:
            status = process.wait()
            return status if status >= 0 else 128 - status
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(STOP_S)
                finally:
                    process.kill()  # nothing if it has ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve; see above."""
    parser = argparse.ArgumentParser(prog="llama_server", description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path, help="GGUF file")
    parser.add_argument("--context", type=int, default=1024, help="tokens of a prompt and its reply")
    parser.add_argument("--slots", type=int, default=2, help="requests at a time")
    parser.add_argument("--threads", type=int, default=1)
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    options, command = parser.parse_args(given[:end]), given[end + 1 :]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        url = serve(options.model, context=options.context, slots=options.slots, threads=options.threads)
        if command:
            return run_beside(url, command)
        print(url, flush=True)
        threading.Event().wait()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _status() -> int:
    try:
        return main()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    status = _status()
    sys.stdout.flush()
    os._exit(status)  # without taking the server down
