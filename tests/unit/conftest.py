"""Unit tests start no process, open no port and do not sleep: whoever does is told so, and belongs into tests/live."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

from tests.helpers.tiers import Watch

WATCH = Watch()
sys.addaudithook(WATCH.heard)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Watch a unit test together with its fixtures; pytest calls this for the tests of all folders."""
    if item.get_closest_marker("unit") is None:
        return (yield)
    WATCH.begin()
    try:
        return (yield)
    finally:
        WATCH.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that did what only live tests may do; the last one's teardown also ends what live tests shared."""
    report = yield
    if report.passed and report.when != "teardown" and (offence := WATCH.offence()):
        report.outcome = "failed"
        report.longrepr = f"a unit test {offence}; move it to tests/live"
    return report
