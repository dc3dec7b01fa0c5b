"""Takes the pictures of console and report: a real sweep on this machine, the real pages in a real Chromium.

``python -m docs.screenshots`` takes some minutes and needs chromium. It runs the sweep of ``examples/calibration`` in a
copy, writes ``docs/images/console-light.png`` and ``console-dark.png`` while it runs, and ``report.png`` and
``report-results.png`` when it is over.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page
from tests.helpers.browser.serving import served
from tests.tools.browser import chromium

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples/calibration"
IMAGES = ROOT / "docs/images"
WIDE, HIGH = 1280, 1300
REPORT_WIDE = 1180
MARGIN = 16  # around a part of the report
FAR_ENOUGH = 0.6  # of the rows, so that there is something of everything
LONG_MS = 1_800_000
LARGEST = 250_000  # bytes of a picture, for whoever clones the repository


def main() -> None:
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name) / "calibration"
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".scalable", "__pycache__"))
        env = {each: value for each, value in os.environ.items() if not each.startswith("SCALABLE_")}
        command = [sys.executable, "-m", "scalable", "run", "--sweep", "calibration"]
        with (
            (folder / "said").open("wb") as said,
            subprocess.Popen(command, cwd=folder, env=env, stdout=said, stderr=said) as process,
            served(folder / ".scalable/runs") as console,
        ):
            page = browser.new_page(viewport={"width": WIDE, "height": HIGH})
            page.goto(console.invite())
            page.wait_for_function(f"() => {progress()} >= {FAR_ENOUGH}", timeout=LONG_MS)
            take(page, IMAGES / "console-light.png")
            page.get_by_role("button", name="Use the dark theme").click()
            take(page, IMAGES / "console-dark.png")
            process.wait()
            report = folder / "report.html"
            written = [*command[:3], "report", "--format", "html", "--output", str(report)]
            subprocess.run(written, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
            page = browser.new_page(viewport={"width": REPORT_WIDE, "height": HIGH}, color_scheme="light")
            page.goto(report.as_uri())
            take_part(page, IMAGES / "report.png", "header", "#summary")
            take_part(page, IMAGES / "report-results.png", "#equity", "#heat-map")


def progress() -> str:
    bar = "document.querySelector('[role=progressbar]')"
    return f"({bar} ? {bar}.ariaValueNow / {bar}.ariaValueMax : 0)"


def take(page: Page, path: Path, **how: Any) -> None:
    page.mouse.move(0, 0)
    page.screenshot(path=path, animations="disabled", **how)
    assert path.stat().st_size < LARGEST, f"{path} is too large for a repository"
    print(path.relative_to(ROOT))


def take_part(page: Page, path: Path, first: str, last: str) -> None:
    """From the top of one part of the page to the end of another."""
    top, bottom = (page.locator(which).first.bounding_box() for which in (first, last))
    assert top is not None and bottom is not None, f"the report has no {first} or no {last}"
    begin, end = max(0, top["y"] - MARGIN), bottom["y"] + bottom["height"] + MARGIN
    clip = {"x": 0, "y": begin, "width": REPORT_WIDE, "height": end - begin}
    take(page, path, full_page=True, clip=clip)


if __name__ == "__main__":
    main()
