"""Settings for all tests: generated examples are derandomised, so a run can be repeated; skips may be forbidden."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("scalable.testing.providers", "scalable.testing.store", "scalable.testing.store_beside")
settings.register_profile("scalable", derandomize=True, print_blob=True, deadline=None)  # machines are busy at times
settings.load_profile("scalable")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell ignores it for what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

NO_CLUSTER = "no Kubernetes to test with"  # its binaries come in no package, so that this alone may be missing


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where all tiers are required, a test that is skipped for a missing component has failed."""
    report = yield
    if report.skipped and os.environ.get("SCALABLE_REQUIRE_ALL_TIERS") and NO_CLUSTER not in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"required here, but skipped: {report.longrepr}"
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked ``long`` are for ``make test-all``; naming one of them runs it, too."""
    if os.environ.get("SCALABLE_LONG") or any("::" in name for name in config.args):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]
