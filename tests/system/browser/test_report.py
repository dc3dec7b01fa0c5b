"""The page in a real Chromium: nothing is refused by its own policy, both themes are readable, and it prints well."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.helpers.report.builders import made, sweep_run, troubled_run

CONTRASTS = """() => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("p, dt, dd, td, th, caption, figcaption, h1, h2, h3, h4, .chip, .quiet, a")]
    .filter(element => element.textContent.trim() && element.offsetParent)
    .map(element => {
      const [a, b] = [light(channels(getComputedStyle(element).color)), light(behind(element))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.className + " " + element.textContent];
    });
}"""
BEYOND = """() => [...document.querySelectorAll(".card, section")].flatMap(box => {
  const end = box.getBoundingClientRect().right;
  const texts = [...box.querySelectorAll("*")].filter(one => one.checkVisibility() && !one.closest(".wide, svg"));
  return texts.filter(one => one.getBoundingClientRect().right > end + 1).map(one => one.outerHTML.slice(0, 200));
})"""
"""What reaches beyond its box."""
LETTERS = """() => [...document.querySelectorAll("svg text")].filter(one => one.checkVisibility()).map(one =>
  parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)"""
LEGIBLE = 7.0  # pixels; on a wide screen they have twelve
READABLE = 4.5  # WCAG AA for text of ordinary size


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two reports as files: of a sweep with verdicts, and of one in which much went wrong."""
    base = tmp_path_factory.mktemp("reports")
    gains = {"isotonic": {"sharpe": 2.0, "sortino": 2.0}}
    found = {}
    for name, folder in (("sweep", sweep_run(base, gains)), ("trouble", troubled_run(base / "others"))):
        found[name] = base / f"{name}.html"
        found[name].write_text(made(folder), encoding="utf-8")
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["sweep", "trouble"])
def test_every_text_is_readable_and_nothing_is_refused(
    browser: Browser, written: dict[str, Path], name: str, theme: Any
) -> None:
    context = browser.new_context(color_scheme=theme, viewport={"width": 1180, "height": 900})
    complaints: list[str] = []
    context.on("console", lambda said: complaints.append(said.text))
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(written[name].as_uri())
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 50 and [text for contrast, text in contrasts if contrast < READABLE] == []
    assert complaints == [] and asked == [written[name].as_uri()]
    context.close()


def test_a_narrow_screen_needs_no_scrolling_sideways(browser: Browser, written: dict[str, Path]) -> None:
    for path in written.values():
        page = browser.new_page(viewport={"width": 360, "height": 800})
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.evaluate(BEYOND) == []
        assert min(page.evaluate(LETTERS)) >= LEGIBLE
        page.close()


def test_what_is_folded_opens_by_keyboard(browser: Browser, written: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(written["sweep"].as_uri())
    table = page.get_by_role("table", name="Rows with their keys")
    assert not table.is_visible()
    page.get_by_text("All 150 rows", exact=True).focus()
    page.keyboard.press("Enter")
    assert table.is_visible() and table.get_by_role("row").count() == 151
    page.close()


def test_a_report_prints_as_a_few_pages_with_its_headings(browser: Browser, written: dict[str, Path]) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto(written["sweep"].as_uri())
    printed = page.pdf(prefer_css_page_size=True, outline=True, tagged=True)
    sheets = len(re.findall(rb"/Type /Page\b(?!s)", printed))
    assert 3 <= sheets <= 8, "what is folded is left out"
    headings = [title.decode() for title in re.findall(rb"/Title \(([^)]*)\)", printed)]
    wanted = ["Summary", "Verdict", "Effects", "Heat map", "Metrics", "Timeline", "Provenance"]
    assert set(wanted) <= set(headings)
    page.emulate_media(media="print")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)", "whatever the theme of the screen is"
    assert not page.get_by_role("navigation").is_visible()
    assert page.get_by_text("Lock calibration = isotonic").is_visible()
    page.close()
