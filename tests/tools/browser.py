"""Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from tests.tools.system import BROWSER_PROGRAMS, require, search_path

# Without a sandbox, which root and containers may not have; shared memory in files, for small /dev/shm.
FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Raises ``ToolMissingError`` where there is none. While it is open, no event loop can run in this thread."""
    require(BROWSER_PROGRAMS)
    with sync_playwright() as playwright:
        program = shutil.which("chromium", path=search_path())
        found = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield found
        found.close()
