"""Takes the pictures of the console: a real sweep on this machine, the real page in a real Chromium, in both themes.

``python -m docs.screenshots`` takes some minutes and needs chromium. It writes
``docs/images/console-light.png`` and ``console-dark.png`` while the sweep of ``examples/calibration`` runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from tests.console.browser.conftest import FLAGS
from tests.console.browser.serving import served
from tests.tools.system import BROWSER_PROGRAMS, require, search_path

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples/calibration"
IMAGES = ROOT / "docs/images"
WIDE, HIGH = 1280, 1300
FAR_ENOUGH = 0.6  # of the rows, so that there is something of everything
LONG_MS = 1_800_000
LARGEST = 250_000  # bytes of a picture, for whoever clones the repository


def main() -> None:
    require(BROWSER_PROGRAMS)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name) / "calibration"
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".scalable", "__pycache__"))
        env = {each: value for each, value in os.environ.items() if not each.startswith("SCALABLE_")}
        command = [sys.executable, "-m", "scalable", "run", "--sweep", "calibration"]
        with (
            (folder / "said").open("wb") as said,
            subprocess.Popen(command, cwd=folder, env=env, stdout=said, stderr=said) as process,
            served(folder / ".scalable/runs") as console,
        ):
            program = shutil.which("chromium", path=search_path())
            browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
            page = browser.new_page(viewport={"width": WIDE, "height": HIGH})
            page.goto(console.address)
            page.wait_for_function(f"() => {progress()} >= {FAR_ENOUGH}", timeout=LONG_MS)
            take(page, IMAGES / "console-light.png")
            page.get_by_role("button", name="Use the dark theme").click()
            take(page, IMAGES / "console-dark.png")
            process.terminate()
            browser.close()


def progress() -> str:
    bar = "document.querySelector('[role=progressbar]')"
    return f"({bar} ? {bar}.ariaValueNow / {bar}.ariaValueMax : 0)"


def take(page: Page, path: Path) -> None:
    page.mouse.move(0, 0)
    page.screenshot(path=path, animations="disabled")
    assert path.stat().st_size < LARGEST, f"{path} is too large for a repository"


if __name__ == "__main__":
    main()
