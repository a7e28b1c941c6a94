"""Which Chromium draws the pages: the first on PATH that starts, else Playwright's own."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL
from pathlib import Path
from typing import Any

from tilewright.configs.errors import UserError

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--disable-checker-imaging",  # a picture is drawn when its tile is, not a frame later
    "--blink-settings=imageAnimationPolicy=2",  # animated pictures show their first frame
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)
NO_PROXY = {"server": "http://127.0.0.1:9", "bypass": "<-loopback>"}  # the discard port: whatever slips through fails
VERSION_TIMEOUT_S = 30.0
LAUNCH_TIMEOUT_S = 60.0
MAX_LOG_LINES = 3


class BrowserMissingError(UserError, RuntimeError):
    """There's no Chromium, or no Playwright to drive it."""


async def launch_first(playwright: Any) -> tuple[Any, str | None]:
    """(browser, its program) of the first Chromium on PATH that starts, else Playwright's own (program None).

    Raises BrowserMissingError, which names what was tried.
    """
    tried = []
    for program in dict.fromkeys(found for name in PROGRAMS if (found := shutil.which(name))):
        silent = await _silent(program)
        if silent:
            tried.append(f"{program}: {silent}")
            continue
        try:
            return await launch(playwright, program), program
        except BrowserMissingError as error:
            tried.append(str(error))
    if Path(playwright.chromium.executable_path).exists():
        try:
            return await launch(playwright, None), None
        except BrowserMissingError as error:
            tried.append(str(error))
    else:
        tried.append("Playwright's own isn't installed")
    raise BrowserMissingError(
        f"no Chromium that starts: wanted one of {', '.join(PROGRAMS)} on PATH or Playwright's own; tried: "
        + "; ".join(tried)
        + ". Run `apt-get install chromium fonts-liberation`, or `playwright install --with-deps chromium`"
    )


async def _silent(program: str) -> str:
    """Why ``program`` doesn't tell its version (stubs that only name another package don't), or ""."""
    process = None
    try:
        process = await asyncio.create_subprocess_exec(
            program, "--version", stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
        )
        status = await asyncio.wait_for(process.wait(), VERSION_TIMEOUT_S)
    except TimeoutError:
        return f"--version took more than {VERSION_TIMEOUT_S:g} s"
    except OSError as error:
        return str(error)
    finally:
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return f"--version ended with status {status}" if status else ""


async def launch(playwright: Any, program: str | None) -> Any:
    """Start ``program`` (None: Playwright's own). As root, or where the kernel allows none, it has no sandbox.

    Raises BrowserMissingError.
    """
    from playwright.async_api import Error

    async def start(sandbox: bool) -> Any:
        return await playwright.chromium.launch(
            executable_path=program,
            args=list(FLAGS),
            chromium_sandbox=sandbox,
            timeout=LAUNCH_TIMEOUT_S * 1000,
            proxy=NO_PROXY,
        )

    sandbox = os.geteuid() != 0
    try:
        try:
            return await start(sandbox)
        except Error as error:
            if not sandbox or "sandbox" not in str(error).lower():
                raise
        print("render_tiles: this machine allows Chromium no sandbox; it runs without", file=sys.stderr)
        return await start(False)
    except Error as error:
        name = program or "Playwright's own"
        first, *log = str(error).splitlines()
        said = [line.strip() for line in log if "[err]" in line][:MAX_LOG_LINES]
        raise BrowserMissingError(f"{name} doesn't start: {' | '.join([first, *said])}") from error
