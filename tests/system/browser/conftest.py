"""A real Chromium for the tests of the page: one browser, a tab for each test; what a page complains of fails it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from scalable.show.console.guard import AccessGuard
from tests.helpers.browser.serving import PATIENCE_S, served
from tests.helpers.browser.simulated import SimulatedRun
from tests.tools.browser import chromium
from tests.tools.errors import ToolMissingError

expect.set_options(timeout=PATIENCE_S * 1000)


# Of a package and not of the session: while it is open, no other test of this worker can run an event loop.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    try:
        with chromium() as found:
            yield found
    except ToolMissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context(viewport={"width": 1440, "height": 1000}, reduced_motion="reduce")
    found.set_default_timeout(PATIENCE_S * 1000)
    yield found
    found.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A tab; errors of its scripts and everything its policy forbade fail the test."""
    found, complaints = context.new_page(), watched(context)
    yield found
    assert complaints == []


def watched(context: BrowserContext) -> list[str]:
    """What a page complains of: errors it did not catch, what is written to its console, what its policy forbids."""
    complaints: list[str] = []
    context.on("weberror", lambda error: complaints.append(f"error: {error.error}"))
    context.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
    return complaints


@pytest.fixture(autouse=True)
def a_quick_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """People are told once a second; tests need not wait so long for each thing they look for."""
    for name in ("feed.EVERY_S", "feed.OVER_EVERY_S", "runs.LATEST_EVERY_S"):
        monkeypatch.setattr(f"scalable.show.console.{name}", 0.2)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def console(runs: Path) -> Iterator[AccessGuard]:
    with served(runs) as guard:
        yield guard


@pytest.fixture
def run(runs: Path) -> Iterator[SimulatedRun]:
    """A small run, under way."""
    with SimulatedRun(runs) as found:
        yield found
