"""The contract of a store's ledger: every decision once, every look counted, nothing ever taken out.

Part of ``scalable.testing.store.StoreContract``, which is what to run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest

from scalable.store import DecisionRow, Row, RowError, Store, StoreError

Opener = Callable[[], Store]


def a_decision(name: str = "first", **changes: Any) -> DecisionRow:
    """A decision on two variants whose id follows from the name."""
    given: dict[str, Any] = {
        "id": blake2b(name.encode(), digest_size=16).hexdigest(),
        "sweep": "calibration",
        "decided": True,
        "data": blake2b(f"rows of {name}".encode(), digest_size=16).hexdigest(),
        "baseline": "none",
        "primary_metric": "sharpe",
        "method": "crossed t over 5 assets × 5 periods",
        "level": 0.05,
        "variants": 2,
        "verdicts": ({"variant": "isotonic", "verdict": "LOCK"}, {"variant": True, "verdict": "ABANDON"}),
    }
    return DecisionRow(**{**given, **changes})


class LedgerContract:
    def test_a_new_store_has_an_empty_ledger(self, store: Store) -> None:
        assert store.ledger() == []

    def test_a_decision_comes_back_as_it_was_recorded_with_its_number_and_time(self, store: Store) -> None:
        wanted = a_decision()
        entry = store.record_decision(wanted)
        assert store.ledger() == [entry]
        assert (entry.number, entry.looks) == (1, 1)
        assert entry.first_at == entry.last_at
        assert entry.first_at is not None and abs(entry.first_at - time.time()) < 3600
        assert replace(entry, number=None, first_at=None, last_at=None) == wanted
        assert [type(each["variant"]) for each in entry.verdicts] == [str, bool]

    def test_the_same_decision_again_is_another_look_and_not_another_entry(self, store: Store) -> None:
        first = store.record_decision(a_decision())
        store.record_decision(a_decision("other"))
        time.sleep(0.002)
        verdicts = ({"variant": "isotonic", "verdict": "KEEP_AVAILABLE"},)
        again = store.record_decision(a_decision(level=0.01, verdicts=verdicts))
        assert (again.number, again.looks, again.first_at) == (1, 2, first.first_at)
        assert (again.last_at or 0) > (first.last_at or 0)
        assert (again.level, again.verdicts) == (0.05, verdicts), "the largest level, the newest verdicts"
        assert store.record_decision(a_decision(level=0.06)).level == 0.06
        assert [(each.number, each.looks) for each in store.ledger()] == [(1, 3), (2, 1)]

    @pytest.mark.parametrize("baseline", ["none", "1", 1, 1.5, True])
    def test_verdicts_against_another_baseline_do_not_replace_those_of_the_first_look(
        self, store: Store, baseline: str | float
    ) -> None:
        first = store.record_decision(a_decision(baseline=baseline))
        [entry] = store.ledger()
        assert (entry.baseline, type(entry.baseline)) == (baseline, type(baseline))
        for looks, value in enumerate((each for each in ("isotonic", 1, "1", True) if each is not baseline), 2):
            other = store.record_decision(a_decision(baseline=value, verdicts=()))
            assert (other.verdicts, other.baseline, other.looks) == (first.verdicts, baseline, looks)

    def test_entries_are_listed_by_sweep_in_the_order_of_their_first_look(self, store: Store) -> None:
        for name, sweep in (("a", "trees"), ("b", "calibration"), ("c", "trees"), ("a", "trees")):
            store.record_decision(a_decision(name, sweep=sweep))
        assert [(each.number, each.sweep) for each in store.ledger()] == [
            (1, "trees"), (2, "calibration"), (3, "trees"),
        ]  # fmt: skip
        assert [each.number for each in store.ledger("trees")] == [1, 3]
        assert store.ledger("nothing") == []

    def test_locks_are_added_to_their_decision_and_dated(self, store: Store) -> None:
        store.record_decision(a_decision())
        for reason in ("it won", "agreed"):
            lock = {"variant": 0.5, "forced": reason == "agreed", "reason": reason}
            store.record_decision(a_decision(locks=(lock,)))
        store.record_decision(a_decision())
        [entry] = store.ledger()
        assert [(each["variant"], each["forced"], each["reason"]) for each in entry.locks] == [
            (0.5, False, "it won"), (0.5, True, "agreed"),
        ]  # fmt: skip
        assert all(abs(each["at"] - time.time()) < 3600 for each in entry.locks)

    def test_a_lock_that_nothing_was_decided_about_has_an_entry_without_figures(self, store: Store) -> None:
        untested = DecisionRow(id="0" * 32, sweep="cusum", decided=False, locks=({"variant": "x", "forced": True},))
        entry = store.record_decision(untested)
        assert store.ledger() == [entry]
        assert (entry.decided, entry.data, entry.level, entry.variants) == (False, None, None, 0)

    def test_the_ledger_stays_when_results_no_longer_count(self, store: Store) -> None:
        row = Row(run_key="1" * 32, sweep="calibration", metrics={"sharpe": 1.0})
        store.put([row])
        entry = store.record_decision(a_decision())
        store.mark_failed([row.run_key], "wrong prices")
        assert store.ledger() == [entry]

    def test_the_ledger_is_there_when_the_store_is_opened_again(self, open_store: Opener) -> None:
        with open_store() as store:
            store.record_decision(a_decision())
        with open_store() as store, open_store() as other:
            assert other.record_decision(a_decision()).looks == 2
            assert [each.looks for each in store.ledger()] == [2]

    def test_decisions_made_at_once_are_all_counted_and_have_numbers_of_their_own(self, open_store: Opener) -> None:
        def decide(thread: int) -> None:
            with open_store() as store:
                for number in range(5):
                    store.record_decision(a_decision(f"{thread} {number}"))
                    store.record_decision(a_decision("the same"))

        threads = [threading.Thread(target=decide, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        with open_store() as store:
            entries = store.ledger()
        assert [each.number for each in entries] == list(range(1, 22))
        assert sorted(each.looks for each in entries) == [1] * 20 + [20]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"id": "short"}, {"sweep": ""}, {"sweep": "a\0"}, {"decided": "yes"}, {"data": None}, {"variants": 0},
            {"variants": 1.5}, {"level": 0.0}, {"level": 1.0}, {"level": None}, {"verdicts": "LOCK"},
            {"verdicts": ["LOCK"]}, {"baseline": ""}, {"locks": [{"variant": object()}]}, {"looks": 0}, {"method": ""},
        ],
    )  # fmt: skip
    def test_a_decision_that_cannot_be_right_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(RowError):
            a_decision(**wrong)

    def test_what_is_no_decision_is_refused_and_a_closed_store_takes_none(self, open_store: Opener) -> None:
        with open_store() as store:
            with pytest.raises(RowError):
                store.record_decision({"sweep": "calibration"})  # type: ignore[arg-type]
            assert store.ledger() == []
        for use in (store.ledger, lambda: store.record_decision(a_decision())):
            with pytest.raises(StoreError, match="closed"):
                use()
