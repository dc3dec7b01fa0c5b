"""For everybody: by keyboard alone, with a screen reader, in both themes with enough contrast, on a small screen."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from scalable.show.console.guard import AccessGuard
from tests.helpers.browser.simulated import SimulatedRun

ENOUGH = 4.5  # WCAG 2.2, level AA, for text of usual size
CONTRASTS = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const part = (value) => ((value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.textContent.trim());
    if (!own || !node.checkVisibility({ visibilityProperty: true }) || node.closest("[aria-hidden=true]")) continue;
    const style = getComputedStyle(node);
    const ink = parse(node instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(ink), light(ground(node))].sort((x, y) => y - x);
    const what = `${node.tagName}.${node.getAttribute("class")}: ${node.textContent.slice(0, 40)}`;
    found.push([what, (a + 0.05) / (b + 0.05)]);
  }
  return found;
}"""
GROUND = "() => getComputedStyle(document.body).backgroundColor"
UNNAMED = """() => [...document.querySelectorAll("button, select, input, [role], a, table, canvas")]
  .filter((node) => node.checkVisibility() && !node.closest("dialog:not([open])"))
  .filter((node) => {
    const by = document.getElementById(node.getAttribute("aria-labelledby"))?.textContent;
    const said = node.getAttribute("aria-label") || by || node.closest("label")?.textContent || node.textContent;
    return !said.trim() && node.tagName !== "CANVAS";
  })
  .map((node) => node.outerHTML.slice(0, 120))"""


SPILLED = """() => [...document.querySelectorAll(".panel *")]
  .filter((node) => node.checkVisibility() && !node.closest("svg, .grid-scroll, .visually-hidden"))
  .filter((node) => {
    const end = node.closest("td, th, .panel").getBoundingClientRect().right;
    return node.scrollWidth > node.clientWidth + 1 && node.getBoundingClientRect().left + node.scrollWidth > end + 1;
  })
  .map((node) => node.outerHTML.slice(0, 120))"""
LONG = "standard-of-a-long-project-name-5f7d8c9b64-x2x9k" * 3


def test_every_text_can_be_read_in_both_themes_and_the_one_that_is_chosen_is_kept(
    page: Page, console: AccessGuard, run: SimulatedRun
) -> None:
    run.trouble()
    run.advance(1, fail=True)
    page.set_viewport_size({"width": 1280, "height": 4000})
    page.emulate_media(color_scheme="dark")
    page.goto(console.invite())
    expect(page.locator("#retries")).to_contain_text("2 retries")
    expect(page.locator("#incidents")).to_contain_text("Failures (1)")
    page.get_by_role("button", name="Pause").click()
    dark = page.evaluate(GROUND)
    assert pale(page) == []
    page.emulate_media(color_scheme="light")  # the system's is followed
    assert page.evaluate(GROUND) != dark
    assert pale(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Use the dark theme").click()
    assert page.evaluate(GROUND) == dark
    page.reload()
    assert page.evaluate(GROUND) == dark
    expect(page.get_by_role("button", name="Use the light theme")).to_be_visible()


def pale(page: Page) -> list[tuple[str, float]]:
    """Texts without enough contrast."""
    found = page.evaluate(CONTRASTS)
    assert len(found) > 100
    return [(what, round(ratio, 2)) for what, ratio in found if ratio < ENOUGH]


def test_everything_is_reached_and_cancelled_by_keyboard_alone(
    page: Page, console: AccessGuard, run: SimulatedRun
) -> None:
    page.goto(console.invite())
    expect(page.locator("#figure-workers")).to_have_text("5")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    reach(page, "#pause")
    assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Pause this run?")
    expect(dialog).to_be_visible()
    expect(dialog.get_by_role("radio").first).to_be_focused()
    for _ in range(8):  # focus stays in the dialog, or leaves the page; it never comes to what is behind
        page.keyboard.press("Tab")
        assert page.evaluate(
            "() => document.activeElement === document.body || Boolean(document.activeElement.closest('#ask'))"
        )
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("#pause")).to_be_focused()
    reach(page, "#grid-keys")
    for key in ("ArrowRight", "ArrowDown", "End", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    expect(page.locator("#grid-cell")).to_have_text("calibration none · ARBUSDC · fold 4 · cost_bps 5: waiting")
    page.keyboard.press("Home")
    expect(page.locator("#grid-cell")).to_have_text("calibration none · AAVEUSDC · fold 0 · cost_bps 5: running")
    reach(page, "#workers tbody button")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Worker w1")).to_be_visible()
    assert not [one for one in run.folder.journal.read_text().splitlines() if '"operator"' in one]


def reach(page: Page, selector: str) -> None:
    """Press Tab until something that is meant has the focus."""
    for _ in range(60):
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{selector} cannot be reached by Tab")


def test_a_screen_reader_finds_landmarks_headings_and_names(
    page: Page, console: AccessGuard, run: SimulatedRun
) -> None:
    run.trouble()
    page.set_viewport_size({"width": 1280, "height": 4000})
    page.goto(console.invite())
    for landmark in ("header", "main", "footer"):
        expect(page.locator(f"body > {landmark}")).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Run {run.folder.run_id}")
    for name in ("Sweeps", "Grid", "Workers", "Cost", "Scaling decisions", "Needs attention", "Results and verdicts"):
        expect(page.get_by_role("region", name=name, exact=True).first).to_be_visible()
    progress = page.get_by_role("progressbar", name="Progress of calibration")
    expect(progress).to_have_attribute("aria-valuetext", "0 of 225 rows, 0 failed")
    expect(page.locator("#workers tbody tr")).to_have_count(5)
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate("() => [...document.querySelectorAll('th')].filter((one) => !one.scope).length") == 0
    assert page.evaluate("() => document.documentElement.lang") == "en"


def test_on_a_small_screen_nothing_must_be_scrolled_sideways(
    page: Page, console: AccessGuard, run: SimulatedRun
) -> None:
    run.trouble()
    for kind in ("finding", "retry", "scale"):
        run.write(kind, code=LONG, text=LONG, run=LONG, cause=LONG, tag=LONG, direction="up", count=1, reason=LONG)
    run.write("gauge", workers={LONG: {"live": 1}}, tasks={})
    run.tell()
    told = run.folder.live_file.read_text()
    run.folder.live_file.write_text(told.replace('"w1"', f'"{LONG}"').replace("/fold0", LONG))
    page.set_viewport_size({"width": 360, "height": 5000})
    page.goto(console.invite())
    expect(page.locator("#workers tbody tr")).to_have_count(5)
    expect(page.locator("#workers")).to_contain_text(LONG)
    expect(page.locator("#pool")).to_contain_text(LONG)
    assert page.evaluate(SPILLED) == []
    expect(page.locator("#retries")).to_contain_text("3 retries")
    page.get_by_role("button", name="Evidence of incident 1").click()
    expect(page.get_by_role("dialog")).to_contain_text("threading.py")
    for width in (360, 768, 1100):
        page.set_viewport_size({"width": width, "height": 5000})
        assert page.evaluate("() => document.documentElement.scrollWidth") == width
        box = page.get_by_role("dialog").bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
