"""The browser in which tests look at pages, driven by Playwright."""

import shutil
from typing import Any

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")


def launch(browsers: Any) -> Any:
    """The system's Chromium if there is one, else Playwright's."""
    system = next((path for name in NAMES if (path := shutil.which(name))), None)
    return browsers.chromium.launch(args=["--no-sandbox"], executable_path=system)
