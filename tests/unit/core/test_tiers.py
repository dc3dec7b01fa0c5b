"""The tiers are what their names say: every test has one, and unit tests are watched."""

from __future__ import annotations

import re
import threading
import time

import pytest

from tests.conftest import TIERS
from tests.helpers.paths import ROOT
from tests.helpers.tiers import Watch

TESTS = ROOT / "tests"
FILES = sorted(TESTS.rglob("*.py"))
OF_TESTS = re.compile(r"^\s*(?:from|import)\s+(tests\.[\w.]+)", re.MULTILINE)


def test_every_test_file_lies_in_the_folder_of_a_tier() -> None:
    stray = [path for path in FILES if path.name.startswith("test_") and path.relative_to(TESTS).parts[0] not in TIERS]
    assert stray == []


def test_no_test_imports_from_another_test() -> None:
    found = {
        (str(path.relative_to(TESTS)), module)
        for path in FILES
        for module in OF_TESTS.findall(path.read_text(encoding="utf-8"))
        if any(part.startswith("test_") for part in module.split("."))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("event", "offence"),
    [
        ("subprocess.Popen", "started a process"),
        ("os.posix_spawn", "started a process"),
        ("os.fork", "forked"),
        ("socket.bind", "opened a port"),
        ("open", ""),
    ],
)
def test_what_only_live_tests_may_do_is_noticed_while_a_unit_test_runs(event: str, offence: str) -> None:
    watch = Watch()
    watch.heard(event, ())
    assert watch.offence() == "", "no test ran yet"
    watch.begin()
    watch.heard(event, ())
    watch.end()
    assert watch.offence() == offence


@pytest.mark.parametrize(("times", "offence"), [(2, ""), (4, "slept 0.4 s")])
def test_sleeps_of_a_test_are_summed(times: int, offence: str) -> None:
    watch, before = Watch(), time.sleep
    watch.sleep = lambda seconds: None
    watch.begin()
    for _ in range(times):
        time.sleep(0.1)
    backing_off = threading.Thread(target=lambda: time.sleep(5))
    backing_off.start()
    backing_off.join()
    time.sleep = before
    assert watch.offence() == offence
