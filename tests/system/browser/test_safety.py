"""What must not happen: markup from a run, pages of other sites, wrong tokens and read-only consoles change nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from scalable.show.console.guard import AccessGuard
from tests.helpers.browser.serving import PATIENCE_S, served
from tests.helpers.browser.simulated import Shape, SimulatedRun
from tests.helpers.paths import ROOT

EVIL = '<img src=x onerror="document.title=`taken`"><script>document.title="taken"</script>'
HOSTILE = ROOT / "tests" / "helpers" / "browser" / "hostile.html"


def test_markup_in_names_and_texts_is_shown_as_the_letters_it_is(page: Page, runs: Path) -> None:
    with served(runs) as console, SimulatedRun(runs, Shape(assets=1), sweep=EVIL) as run:
        run.write("alert", alert=EVIL, state="firing", severity="page", text=EVIL, remedy=EVIL, labels={})
        run.write("finding", code=EVIL, about=EVIL, text=EVIL, remedy=EVIL)
        run.write(
            "incident", id=1, incident=EVIL, run=EVIL, worker=EVIL, tag=EVIL, text=EVIL, severity="high", outcome=EVIL
        )
        run.write("retry", run=EVIL, tag=EVIL, cause=EVIL)
        run.alerts = [{"alert": EVIL, "severity": "page", "state": "firing", "since": run.now, "text": EVIL}]
        run.tell()
        page.set_viewport_size({"width": 1280, "height": 4000})
        page.goto(console.invite())
        expect(page.locator("#sweeps h3")).to_have_text(EVIL)
        expect(page.locator("#attention")).to_contain_text(EVIL)
        expect(page.locator("#incidents")).to_contain_text(EVIL)
        expect(page.locator("#retries")).to_contain_text(EVIL)
        page.get_by_role("button", name=f"Kill sweep {EVIL}").click()
        expect(page.get_by_role("dialog")).to_contain_text(f"Kill sweep {EVIL}?")
        assert page.locator("main img, main script, dialog img").count() == 0
        assert page.title() != "taken"


def test_an_address_opens_one_tab_and_any_other_says_how_to_get_a_new_one(
    context: BrowserContext, console: AccessGuard, run: SimulatedRun
) -> None:
    address = console.invite()
    ours = context.new_page()
    ours.goto(address)
    expect(ours.locator("#state")).to_have_text("running")
    assert "token" not in ours.url and context.cookies() == []
    ours.reload()
    expect(ours.locator("#state")).to_have_text("running")
    other = context.new_page()
    for used in (address, f"http://127.0.0.1:{console.port}/", f"http://127.0.0.1:{console.port}/#token=guess"):
        other.goto(used)
        expect(other.locator("#empty")).to_contain_text("Press Enter in the terminal where scalable console runs")
        expect(other.locator("#connection")).to_have_text("refused")
        expect(other.locator("#locked")).to_be_hidden()
    other.goto(console.invite())
    expect(other.locator("#state")).to_have_text("running")
    ours.goto(address)  # was let in before
    expect(ours.locator("#state")).to_have_text("running")


@contextmanager
def another_site(html: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join(PATIENCE_S)


def test_a_page_of_another_site_in_the_same_browser_reads_nothing_and_gets_nothing_done(
    context: BrowserContext, console: AccessGuard, run: SimulatedRun
) -> None:
    ours = context.new_page()
    ours.goto(console.invite())
    expect(ours.locator("#state")).to_have_text("running")
    html = HOSTILE.read_text(encoding="utf-8").replace("ADDRESS", f"http://127.0.0.1:{console.port}")
    with another_site(html.replace("RUN", run.folder.run_id)) as site:
        theirs = context.new_page()
        theirs.goto(site)
        expect(theirs.locator("#said")).to_contain_text("all: tried")
        said = dict(line.split(": ", 1) for line in theirs.locator("#said").inner_text().splitlines())
        frames = [frame.content() for frame in theirs.frames[1:]]
    assert said.pop("blind") in ("worked", "refused")  # a browser may send what nobody can read the answer of
    assert said == {**dict.fromkeys(("read", "act", "stream", "script"), "refused"), "all": "tried"}
    assert not any("figures" in frame for frame in frames)
    assert not run.folder.control.exists()  # nobody asked the session for anything
    run.advance(1)
    expect(ours.locator("#figure-rows")).to_have_text("3")  # ours goes on


def test_a_read_only_console_offers_no_action_and_says_why(page: Page, runs: Path, run: SimulatedRun) -> None:
    with served(runs, read_only=True) as console:
        page.goto(console.invite())
        expect(page.locator("#locked")).to_contain_text("this console was started with --read-only")
        pause = page.get_by_role("button", name="Pause")
        expect(pause).to_have_attribute("aria-disabled", "true")
        pause.click(force=True)
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.get_by_role("button", name="w1", exact=True).click()
        expect(page.get_by_role("button", name="Kill worker …")).to_have_attribute("aria-disabled", "true")
        page.get_by_role("button", name="Kill worker …").click(force=True)
        expect(page.get_by_role("dialog")).to_have_count(1)  # the worker's, and no question
