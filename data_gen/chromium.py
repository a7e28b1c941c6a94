"""Which Chromium draws the pages: the first on PATH that starts, else Playwright's own."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL
from pathlib import Path

from tilewright.configs.errors import UserError
from tilewright.data_gen.devtools.browser import DevToolsBrowser, LaunchError

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (  # of any program that starts it: what changes pixels, or reaches for the network
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
_DISABLED_FEATURES = (
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",  # else it aborts some redirects whose requests are intercepted
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
)
_ALWAYS = (  # as Playwright starts it: nothing that waits, asks, pauses what is in the background or calls home
    "--headless",
    "--mute-audio",
    "--allow-pre-commit-input",
    "--disable-back-forward-cache",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-breakpad",
    "--disable-component-extensions-with-background-pages",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-hang-monitor",
    "--disable-infobars",
    "--disable-ipc-flooding-protection",
    "--disable-popup-blocking",
    "--disable-prompt-on-repost",
    "--disable-renderer-backgrounding",
    "--disable-search-engine-choice-screen",
    "--enable-features=CDPScreenshotNewSurface,SkipListAccountsWithoutGaiaCookies",
    "--enable-unsafe-swiftshader",
    "--force-color-profile=srgb",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
    f"--disable-features={','.join(_DISABLED_FEATURES)}",
    "--proxy-server=http://127.0.0.1:9",  # the discard port: whatever slips through fails
    "--proxy-bypass-list=<-loopback>",
)
VERSION_TIMEOUT_S = 30.0
LAUNCH_TIMEOUT_S = 60.0
MAX_LOG_LINES = 3


class BrowserMissingError(UserError, RuntimeError):
    """There's no Chromium that starts."""


async def launch_first(*, frames_on_demand: bool = False) -> tuple[DevToolsBrowser, str]:
    """(browser, its program) of the first Chromium on PATH that starts, else Playwright's own; see ``launch``.

    Raises BrowserMissingError, which names what was tried.
    """
    tried = []
    for program in dict.fromkeys(found for name in PROGRAMS if (found := shutil.which(name))):
        silent = await _silent(program)
        if silent:
            tried.append(f"{program}: {silent}")
            continue
        try:
            return await launch(program, frames_on_demand=frames_on_demand), program
        except BrowserMissingError as error:
            tried.append(str(error))
    program = await _program_of_playwright()
    if program:
        try:
            return await launch(program, frames_on_demand=frames_on_demand), program
        except BrowserMissingError as error:
            tried.append(str(error))
    else:
        tried.append("Playwright's own isn't installed")
    raise BrowserMissingError(
        f"no Chromium that starts: wanted one of {', '.join(PROGRAMS)} on PATH or Playwright's own; tried: "
        + "; ".join(tried)
        + ". Run `apt-get install chromium fonts-liberation`, or `playwright install --with-deps chromium`"
    )


async def _program_of_playwright() -> str:
    """The Chromium that `playwright install` put on this machine, without windows if there is one; "" without."""
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        return ""
    async with async_playwright() as playwright:
        full = Path(playwright.chromium.executable_path)
    folder = next((parent for parent in full.parents if parent.name.startswith("chromium-")), None)
    if folder is not None:
        shells = folder.with_name(folder.name.replace("chromium-", "chromium_headless_shell-", 1))
        for name in ("chrome-headless-shell", "headless_shell"):
            for found in sorted(shells.glob(f"*/{name}")):
                return str(found)
    return str(full) if full.exists() else ""


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


async def launch(program: str, *, frames_on_demand: bool = False) -> DevToolsBrowser:
    """Start ``program``, which draws ``frames_on_demand`` only if it can; then no scripts of pages run.

    As root, or where the kernel allows none, it has no sandbox. Raises BrowserMissingError.
    """
    sandbox = os.geteuid() != 0
    try:
        try:
            return await _start(program, sandbox, frames_on_demand)
        except LaunchError as error:
            if not sandbox or not any("sandbox" in line.lower() for line in error.log):
                raise
        print("render_tiles: this machine allows Chromium no sandbox; it runs without", file=sys.stderr)
        return await _start(program, False, frames_on_demand)
    except LaunchError as error:
        said = " | ".join([str(error), *error.log[:MAX_LOG_LINES]])
        raise BrowserMissingError(f"{program} doesn't start: {said}") from error


async def _start(program: str, sandbox: bool, frames_on_demand: bool) -> DevToolsBrowser:
    flags = [*_ALWAYS, *FLAGS] if sandbox else [*_ALWAYS, *FLAGS, "--no-sandbox"]
    can = "headless" in Path(program).name  # the shell; a whole Chromium draws frames when it likes
    return await DevToolsBrowser.launch(program, flags, LAUNCH_TIMEOUT_S, frames_on_demand=can and frames_on_demand)
