"""What a person sees: progress that moves, the grid that fills, workers, trouble with its evidence, other runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from scalable.show.console.guard import AccessGuard
from tests.helpers.browser.simulated import LARGE, Shape, SimulatedRun
from tests.helpers.observe.builders import fall_silent


@pytest.mark.journey
def test_the_address_opens_the_page_without_its_token_and_progress_moves_as_rows_come(
    page: Page, console: AccessGuard, run: SimulatedRun
) -> None:
    page.goto(console.invite())
    expect(page.locator("#state")).to_have_text("running")
    assert "token" not in page.url
    progress = page.get_by_role("progressbar", name="Progress of calibration")
    expect(progress).to_have_attribute("aria-valuenow", "0")
    expect(page.locator("#figure-workers")).to_have_text("5")
    run.advance(4)
    expect(progress).to_have_attribute("aria-valuenow", "12")
    expect(page.locator("#figure-rows")).to_have_text("12")
    expect(page.locator("#sweeps")).to_contain_text("4 of 75 jobs")
    expect(page.locator("#figure-spent")).to_have_text("EUR 0.0048")
    assert page.title().startswith("ftf · running")
    expect(page.locator("#runs option").first).to_contain_text("Latest: ftf · ")
    now = "Latest figures: 5 compute workers, 5 running, 66 waiting. Most at a time: 5 compute."
    page.locator("#panel-pool").scroll_into_view_if_needed()
    expect(page.locator("#pool")).to_contain_text(now)
    expect(page.locator("#pool .marker")).to_have_count(1)  # the first decision is before the first figure
    expect(page.locator("#decisions")).to_contain_text("▲ compute 1 → 5")
    expect(page.locator("#decisions")).to_contain_text("work for 20 min waits")
    expect(page.locator("#cost")).to_contain_text("EUR 6.40")
    expect(page.locator("#cost")).to_contain_text("May be spent")
    expect(page.locator("#plan").get_by_role("row", name="Tasks compute")).to_contain_text("754")  # planned and done


def test_the_grid_fills_in_and_says_what_a_cell_is(page: Page, console: AccessGuard, run: SimulatedRun) -> None:
    page.goto(console.invite())
    expect(page.locator("#legend-1")).to_have_text("15")
    run.advance(1)
    run.advance(1, fail=True)
    expect(page.locator("#legend-2")).to_have_text("3")
    expect(page.locator("#legend-4")).to_have_text("3")
    progress = page.get_by_role("progressbar", name="Progress of calibration")
    expect(progress).to_have_attribute("aria-valuetext", "3 of 225 rows, 3 failed")
    colours = page.evaluate(
        """() => {
          const canvas = document.querySelector("#grid-canvas");
          const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          const seen = new Set();
          for (let at = 0; at < pixels.length; at += 4) seen.add(`rgb(${pixels.slice(at, at + 3).join(", ")})`);
          const samples = [...document.querySelectorAll("#grid-legend .sample")].slice(0, 5);
          return samples.map((one) => seen.has(getComputedStyle(one).backgroundColor));
        }"""
    )
    assert colours == [True, True, True, False, True]  # waiting, running, done, none there before, failed
    page.locator("#grid-canvas").hover(position={"x": 70, "y": 26})
    expect(page.locator(".tip")).to_have_text("calibration none · AAVEUSDC · fold 0 · cost_bps 5: done")
    page.get_by_text("As a table").click()
    row = page.get_by_role("row", name="none")
    expect(row.get_by_role("cell").first).to_have_text("3/15, 9 running, 3 failed")


def test_workers_are_sorted_filtered_and_opened_with_what_they_do(
    page: Page, console: AccessGuard, run: SimulatedRun
) -> None:
    run.folder.log("w3").write_text("the end of what w3 said\n")
    page.goto(console.invite())
    rows = page.locator("#workers tbody tr")
    expect(rows).to_have_count(5)
    page.get_by_role("button", name="Memory", exact=True).click()
    expect(page.get_by_role("columnheader", name="Memory")).to_have_attribute("aria-sort", "descending")
    parts = [
        int(text.split(", ")[-1].removesuffix(" %"))
        for text in page.locator("#workers td:nth-child(4)").all_inner_texts()
    ]
    assert parts == sorted(parts, reverse=True)
    page.get_by_label("Show workers").fill("w3")
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="w3", exact=True).click()
    dialog = page.get_by_role("dialog", name="Worker w3")
    expect(dialog).to_contain_text("AAVEUSDC/none/fold2")
    dialog.get_by_role("button", name="Show log").click()
    expect(dialog).to_contain_text("the end of what w3 said")


def test_trouble_is_told_with_its_remedy_and_an_incident_opens_with_its_evidence(
    page: Page, console: AccessGuard, run: SimulatedRun
) -> None:
    page.goto(console.invite())
    expect(page.locator("#panel-attention")).to_be_hidden()
    run.trouble()
    attention = page.locator("#panel-attention")
    expect(attention).to_contain_text("give the component more memory")
    expect(attention).to_contain_text("pass n_jobs=1, or write policies.fork: deny")
    page.locator("#panel-retries").scroll_into_view_if_needed()
    expect(page.locator("#retries")).to_contain_text("2 retries")
    page.get_by_role("button", name="Evidence of incident 1").click()
    dialog = page.get_by_role("dialog", name="Incident 1")
    expect(dialog).to_contain_text("os.fork in cleanlab/filter.py:404")
    expect(dialog.get_by_role("region", name="Evidence")).to_contain_text("acquire (threading.py:327)")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Evidence of incident 1")).to_be_focused()
    for number in range(2, 121):
        run.write("incident", id=number, incident="stuck", run=f"run {number}", worker="w1", tag="compute", text="lock")
    run.tell()
    expect(page.locator("#incidents")).to_contain_text("The latest 100 of 120 incidents are listed.")
    expect(page.locator("#more-trouble")).to_have_text("120 incidents, 2 retries")


def test_failures_are_trouble_also_where_nothing_alerts(page: Page, console: AccessGuard, run: SimulatedRun) -> None:
    page.goto(console.invite())
    expect(page.locator("#figure-trouble")).to_have_text("none")
    run.write("run-ended", run="AAVE none fold 0", state="failed", reason="ValueError: no such model")
    run.tell()
    expect(page.locator("#figure-trouble")).to_have_text("1 failure")
    expect(page.locator("#figure-trouble")).to_have_attribute("data-tone", "bad")
    page.locator("#panel-incidents").scroll_into_view_if_needed()
    expect(page.locator("#incidents")).to_contain_text("Failures (1)")
    expect(page.locator("#incidents")).to_contain_text("no such model")
    expect(page.get_by_text("No incident.")).to_be_hidden()


def test_a_run_that_gives_no_sign_says_so(page: Page, console: AccessGuard, run: SimulatedRun) -> None:
    page.goto(console.invite())
    expect(page.locator("#state")).to_have_text("running")
    expect(page.locator("#silent")).to_be_hidden()
    fall_silent(run.folder, 120)
    expect(page.locator("#silent")).to_contain_text("last sign 2 min")


def test_panels_that_have_nothing_to_show_yet_do_not_say_that_the_run_is_over(
    page: Page, console: AccessGuard, run: SimulatedRun
) -> None:
    page.route("**/api/stream*", lambda route: None)  # which is never answered
    page.goto(console.invite())
    expect(page.locator("#state")).to_have_text("loading …")
    for place in ("#workers-note", "#more-trouble", "#more-rows"):
        expect(page.locator(place)).to_have_text("loading …")
    for text in ("The run is over", "This run has no plan", "No incident", "No retry", "Nothing is paid for"):
        expect(page.get_by_text(text)).to_have_count(0)
    page.unroute("**/api/stream*")
    page.reload()
    expect(page.locator("#workers-note")).to_contain_text("5 busy")


def test_the_first_run_and_every_later_one_appear_by_themselves_and_earlier_ones_can_be_chosen(
    page: Page, console: AccessGuard, runs: Path
) -> None:
    page.goto(console.invite())
    expect(page.locator("#empty")).to_have_text("Nothing has run here yet. The first run appears by itself.")
    assert page.title() == "scalable"
    expect(page.locator(".panel").filter(visible=True)).to_have_count(0)  # of no run there is nothing to say
    with SimulatedRun(runs, Shape(assets=2), sweep="first") as first:
        expect(page.locator("#sweeps h3")).to_have_text("first")
        expect(page.locator("#empty")).to_be_hidden()
        first.finish()
        expect(page.locator("#state")).to_have_text("ok")
    with SimulatedRun(runs, sweep="second", ago=600.0):
        expect(page.locator("#sweeps h3")).to_have_text("second")
        expect(page.locator("#state")).to_have_text("running")
        page.reload()  # the list of runs is asked for again
        page.locator("#runs").select_option(first.folder.run_id)
        expect(page.locator("#sweeps h3")).to_have_text("first")
        expect(page.locator("#legend-5")).to_have_text("90")  # of the run that is over all cells are missing
        page.reload()
        expect(page.locator("#sweeps h3")).to_have_text("first")


def test_a_connection_that_breaks_is_told_and_comes_back_by_itself(
    page: Page, console: AccessGuard, run: SimulatedRun
) -> None:
    page.goto(console.invite())
    expect(page.locator("#connection")).to_have_text("live")
    page.route("**/api/stream*", lambda route: route.fulfill(content_type="text/event-stream", body=": nothing\n\n"))
    page.reload()
    expect(page.locator("#connection")).to_have_text("reconnecting …")
    page.unroute("**/api/stream*")
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#state")).to_have_text("running")


def test_a_run_that_is_not_there_is_told_and_shown_once_it_is(
    context: BrowserContext, console: AccessGuard, run: SimulatedRun
) -> None:
    page = context.new_page()  # it complains of an address that is not there
    page.goto(console.invite())
    expect(page.locator("#state")).to_have_text("running")
    hidden = run.folder.path.rename(run.folder.path.with_name("elsewhere"))
    page.goto(f"http://127.0.0.1:{console.port}/?run={run.folder.run_id}")
    expect(page.locator("#empty")).to_contain_text(f"run '{run.folder.run_id}' is not recorded in")
    expect(page.locator("#connection")).to_have_text("refused")
    hidden.rename(run.folder.path)
    expect(page.locator("#state")).to_have_text("running")
    expect(page.locator("#empty")).to_be_hidden()
    expect(page.locator("#connection")).to_have_text("live")


def test_ten_thousand_runs_on_two_hundred_workers_are_drawn_and_keep_moving(
    page: Page, console: AccessGuard, runs: Path
) -> None:
    with SimulatedRun(runs, LARGE, workers=200, ago=3000.0) as large:
        large.advance(200)
        page.goto(console.invite())
        expect(page.locator("#legend-2")).to_have_text("200")
        expect(page.locator("#grid-note")).to_have_text("calibration: 10 variants × 50 assets × 5 folds × 4 cost_bps")
        expect(page.locator("#figure-workers")).to_have_text("200")
        page.locator("#panel-workers").scroll_into_view_if_needed()
        expect(page.locator("#workers tbody tr")).to_have_count(200)
        large.advance(100)
        expect(page.locator("#figure-rows")).to_have_text("300")
        page.locator("#panel-grid").scroll_into_view_if_needed()  # what is not seen is drawn when it is
        expect(page.locator("#legend-2")).to_have_text("300")
