"""Settings for all tests: their tier by folder, a time limit, derandomised examples, and skips that may be forbidden."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import settings

pytest.register_assert_rewrite(
    "scalable.testing.providers",
    "scalable.testing.store",
    "scalable.testing.store_extras",
    "scalable.testing.store_ledger",
    "tests.helpers",
)
settings.register_profile("scalable", derandomize=True, print_blob=True, deadline=None)  # machines are busy at times
settings.load_profile("scalable")

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()  # where the key lies that this user's runs are sealed with

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell ignores it for what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

NO_CLUSTER = "no Kubernetes to test with"  # its binaries come in no package, so that this alone may be missing
TESTS = Path(__file__).parent
TIERS = ("unit", "live", "system")
PART_OF_MAKE_TEST = "unit or journey"  # as the Makefile asks for it
MOST_S = 300  # for each of set-up, call and tear-down; the slowest takes a minute on two idle cores
MOST_LONG_S = 3600  # for tests marked long


@contextmanager
def limited(item: pytest.Item) -> Iterator[None]:
    """Fail a test that hangs, with the stacks of its threads; pytest ends the process if that does not help."""
    seconds = MOST_LONG_S if item.get_closest_marker("long") else MOST_S

    def too_long(number: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback(file=sys.__stderr__)
        pytest.fail(f"{item.nodeid} took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    with limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    with limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    with limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped for a missing component where all tiers are required."""
    report = yield
    if report.skipped and os.environ.get("SCALABLE_REQUIRE_ALL_TIERS") and NO_CLUSTER not in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"required here, but skipped: {report.longrepr}"
    return report


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test with its tier, which is the folder it lies in."""
    tier = item.path.relative_to(TESTS).parts[0]
    if tier not in TIERS:
        raise pytest.UsageError(f"{item.nodeid} is in no tier; put it into tests/unit, tests/live or tests/system")
    item.add_marker(tier)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave unread what ``make test`` would only deselect: imports are a good part of its time."""
    if config.option.markexpr != PART_OF_MAKE_TEST or not collection_path.is_relative_to(TESTS):
        return None
    files = list(collection_path.rglob("test_*.py")) if collection_path.is_dir() else [collection_path]
    own = [file for file in files if file.match("test_*.py") and not file.is_relative_to(TESTS / "unit")]
    if own != files or any("mark.journey" in file.read_text(encoding="utf-8") for file in files):
        return None
    return True


def pytest_collection_finish() -> None:
    """Spare the collector of garbage what stays for the whole run: modules and tests."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked ``long`` to ``make test-all``; naming one of them runs it, too."""
    if os.environ.get("SCALABLE_LONG") or any("::" in name for name in config.args):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]
