"""Takes the pictures of a report in a browser:  python -m docs.photographs  after  make run  has computed the sweep.

Another folder in which a sweep was run can be named. Needs Chromium and Playwright, which the tests need as well.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs/images"
WIDTH, HEIGHT = 1180, 900
MARGIN = 16  # around a part of the page


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "examples/calibration"
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        report = Path(scratch) / "report.html"
        command = [sys.executable, "-m", "scalable", "report", "--format", "html", "--output", str(report)]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(report.as_uri())
        photograph(page, "report.png", "header", "#summary")
        photograph(page, "report-results.png", "#equity", "#heat-map")
        browser.close()


def photograph(page: Page, name: str, first: str, last: str) -> None:
    """From the top of one part of the page to the end of another."""
    top, bottom = (page.locator(which).first.bounding_box() for which in (first, last))
    assert top is not None and bottom is not None, f"the report has no {first} or no {last}"
    begin = max(0, top["y"] - MARGIN)
    end = bottom["y"] + bottom["height"] + MARGIN
    clip = {"x": 0, "y": begin, "width": WIDTH, "height": end - begin}
    page.screenshot(path=IMAGES / name, full_page=True, clip=clip)  # type: ignore[arg-type]
    print(f"docs/images/{name}")


if __name__ == "__main__":
    main()
