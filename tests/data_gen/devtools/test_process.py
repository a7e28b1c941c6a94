"""A real Chromium that is killed in the middle of a call, or whose Python is: nothing is left behind."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.data_gen.chromium import PROGRAMS, launch
from tilewright.data_gen.devtools.browser import DevToolsBrowser, Request, TabSettings
from tilewright.data_gen.devtools.connection import DevToolsError
from tilewright.data_gen.devtools.process import LaunchError

pytestmark = pytest.mark.browser


def program() -> str:
    return next(found for name in PROGRAMS if (found := shutil.which(name)))


def processes_of(profile: Path) -> dict[int, str]:
    """{process id: command line} of all whose command line names ``profile``."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(profile) in command:
            found[int(folder.name)] = command
    return found


def wait_until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


async def refuse(request: Request) -> None:
    await request.refuse("Aborted")


def test_killed_in_the_middle_of_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def main() -> None:
        browser = await launch(program())
        (profile,) = tmp_path.glob("tilewright-chromium-*")
        tab = await browser.new_tab(TabSettings((800, 600), True), refuse, lambda: None)
        endless = asyncio.ensure_future(tab.session.send("Runtime.evaluate", {"expression": "for (;;);"}))
        await asyncio.sleep(0.3)
        (main_process,) = (
            pid
            for pid, command in processes_of(profile).items()
            if "--type=" not in command and not command.startswith("/bin/sh") and "rm -rf" not in command
        )
        os.kill(main_process, signal.SIGKILL)
        with pytest.raises(DevToolsError, match="the browser has"):
            await asyncio.wait_for(endless, 10)
        assert browser.ended
        with pytest.raises(DevToolsError):
            await browser.close_tab(tab)
        await browser.close()
        assert not profile.exists()
        wait_until(lambda: not processes_of(profile), "a process is left")

    asyncio.run(main())


def test_closed_it_leaves_nothing_behind_even_if_it_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("tilewright.data_gen.devtools.process.END_TIMEOUT_S", 0.5)

    async def main() -> None:
        browser = await launch(program())
        (profile,) = tmp_path.glob("tilewright-chromium-*")
        for pid in processes_of(profile):
            os.kill(pid, signal.SIGSTOP)
        await browser.close()
        await browser.close()
        wait_until(lambda: not processes_of(profile), "a process is left")
        assert list(tmp_path.glob("tilewright-chromium-*")) == []

    asyncio.run(main())


def test_a_killed_python_takes_its_browser_with_it(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\nfrom tilewright.data_gen.chromium import launch\n"
        "async def main():\n  browser = await launch(sys.argv[1])\n  print('up', flush=True)\n"
        "  await asyncio.sleep(100)\nasyncio.run(main())"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", script, program()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as python:
        assert python.stdout is not None and python.stdout.readline() == b"up\n"
        (profile,) = tmp_path.glob("tilewright-chromium-*")
        assert processes_of(profile)
        python.kill()
    wait_until(lambda: not processes_of(profile), "the browser goes on")
    wait_until(lambda: not profile.exists(), "its profile is left")


@pytest.mark.parametrize(
    ("script", "timeout_s", "reason"),
    [("exit 3", 60.0, "the browser"), ("exec sleep 100", 5.0, "didn't answer within 5 s")],
)
def test_programs_that_do_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, timeout_s: float, reason: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("tilewright.data_gen.devtools.process.END_TIMEOUT_S", 0.5)
    broken = tmp_path / "broken"
    broken.write_text(f"#!/bin/sh\necho no library >&2\n{script}\n")
    broken.chmod(0o755)
    with pytest.raises(LaunchError, match=reason) as caught:
        asyncio.run(DevToolsBrowser.launch(str(broken), [], timeout_s))
    assert caught.value.log == ["no library"]
    assert list(tmp_path.iterdir()) == [broken]
