"""Places across processes: never more than allowed, the dead are found out, who comes back too late cannot write."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scalable.store import open_store
from tests.helpers.store.children import take_part
from tests.helpers.store.trouble import Child

TTL_S = 1.5  # long enough for a child of a busy machine to be heard of, short enough to wait for its end


class LeaseContract:
    """Tests of places for any kind of database; the fixture ``url`` names an empty one."""

    @pytest.fixture(autouse=True)
    def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    def test_two_run_a_third_waits_and_a_killed_holder_frees_its_place(self, url: str) -> None:
        open_store(url).close()
        with sweep(url, "a") as first, sweep(url, "b") as second:
            tokens = [first.hear()[0], second.hear()[0]]
            with sweep(url, "c") as third:
                assert not third.says_something(TTL_S / 2)
                assert (names(url, held=True), names(url, held=False)) == ({"a", "b"}, {"c"})
                first.kill()
                token, holders = third.hear()
                assert holders == {"b", "c"}
                assert token > max(tokens)
                with open_store(url) as store:
                    assert [store.holds(each) for each in (*tokens, token)] == [False, True, True]

    def test_a_heavy_one_waits_for_all_runs_alone_and_lets_nobody_past(self, url: str) -> None:
        open_store(url).close()
        with sweep(url, "normal") as normal:
            normal.hear()
            with sweep(url, "heavy", "heavy") as heavy, sweep(url, "late") as late, sweep(url, "free", "free") as free:
                assert "free" in free.hear()[1], "what may overlap anything does not wait"
                assert not heavy.says_something(TTL_S / 4)
                assert not late.says_something(TTL_S / 4)
                normal.kill()
                assert heavy.hear()[1] == {"heavy", "free"}
                heavy.kill()
                assert late.hear()[1] == {"late", "free"}

    def test_a_holder_that_slept_too_long_stops_and_cannot_write(self, url: str) -> None:
        open_store(url).close()
        with sweep(url, "slept", "heavy", sleeps=True) as slept:
            slept.hear()
            assert slept.process.pid
            with sweep(url, "heir", "heavy") as heir:
                assert heir.hear()[1] == {"heir"}
                os.kill(slept.process.pid, signal.SIGCONT)
                assert "is no longer held, somebody else may have it; nothing was written" in slept.hear()
            with open_store(url) as store:
                assert store.runs() == []


@contextmanager
def sweep(url: str, name: str, kind: str = "normal", *, sleeps: bool = False) -> Iterator[Child]:
    """A process that asked for a place and takes it as soon as it may; two normal ones may be in at once."""
    child = Child(take_part, url, name, kind, TTL_S, sleeps)
    try:
        assert child.hear() == "asked"
        yield child
    finally:
        child.end()


def names(url: str, *, held: bool) -> set[str]:
    with open_store(url) as store:
        return {lease.name for lease in store.leases().list() if lease.held is held}
