"""What every result store must do, as tests that anyone can run against their own.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda: MyStore(tmp_path)

``open_store`` is a function that opens the same store each time it is called. pytest shows the values of a failed
assertion after ``pytest.register_assert_rewrite("scalable.testing.store", "scalable.testing.store_extras")``; the
ledger's tests are in ``scalable.testing.store_ledger``.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from math import isnan
from typing import Any

import pytest

from scalable.axes import Value
from scalable.store import AttemptRow, Fate, Filter, Row, RowError, RowStatus, Store, StoreError, SweepRun, SweepStatus
from scalable.testing.store_extras import BesideRowsContract
from scalable.testing.store_ledger import LedgerContract

Opener = Callable[[], Store]


def key(name: object) -> str:
    return blake2b(repr(name).encode(), digest_size=16).hexdigest()


AXES: Mapping[str, Value] = {"calibration": "isotonic", "asset": "AAVEUSDC", "fold": 0, "cost_bps": 10.0}


def a_row(name: object = "row", axes: Mapping[str, Any] = AXES, **changes: Any) -> Row:
    """A row of a sweep whose key follows from the name; ``axes`` are those that differ from the usual ones."""
    given: dict[str, Any] = {
        "run_key": key(name),
        "sweep": "calibration",
        "axes": {**AXES, **axes},
        "compared": ("calibration",),
        "metrics": {"sharpe": 1.25, "trades": 61},
        "elapsed_s": 41.5,
        "code_fingerprint": "c0de",
        "config_fingerprint": "c0f1",
        "data_fingerprint": "da7a",
        "worker": "w1",
    }
    return Row(**{**given, **changes})


def a_failed_row(name: object = "row", **changes: Any) -> Row:
    failed: dict[str, Any] = {"run_status": RowStatus.FAILED, "metrics": {}, "error": "out of memory"}
    return a_row(name, **{**failed, **changes})


class StoreContract(BesideRowsContract, LedgerContract):
    """Subclass it and give it a fixture ``open_store``."""

    @pytest.fixture
    def store(self, open_store: Opener) -> Iterator[Store]:
        with open_store() as store:
            yield store

    def test_a_new_store_is_empty(self, store: Store) -> None:
        assert store.keys() == set()
        assert list(store.rows()) == []
        assert store.get(key("row")) is None
        assert store.runs() == []
        assert store.waiting == 0
        assert store.recovery.rows == 0

    def test_a_row_comes_back_as_it_was_put(self, store: Store) -> None:
        row = a_row()
        receipt = store.put([row])
        assert (receipt.fate, receipt.rows, receipt.safe) == (Fate.COMMITTED, 1, True)
        [stored] = store.rows()
        assert stored == row
        assert stored.to_dict() == {**row.to_dict(), "written_at": stored.written_at}
        assert store.get(row.run_key) == row
        assert store.keys() == {row.run_key}

    def test_a_row_knows_when_it_was_written_unless_it_was_told(self, store: Store) -> None:
        store.put([a_row("now"), a_row("then", written_at=12.5)])
        assert (self.only(store, "now").written_at or 0) > 1.6e9
        assert self.only(store, "then").written_at == 12.5

    def test_a_row_of_a_plain_task_has_a_key_a_name_and_a_value(self, store: Store) -> None:
        store.put([Row(run_key=key("task"), name="clean the data", value={"years": [2030, 2050], "ok": True})])
        [stored] = store.rows(Filter(name="clean the data"))
        assert stored.value == {"years": [2030, 2050], "ok": True}
        assert stored.sweep is stored.variant is None
        assert (stored.axes, stored.compared) == ({}, ())

    @pytest.mark.parametrize(
        "value", [None, 0, -1, 2**900, 0.1, 1e300, -0.0, "", "null", "5", "ä 漢 \0 \ud800", [], {}]
    )
    def test_a_value_keeps_its_kind_and_every_digit(self, store: Store, value: object) -> None:
        store.put([a_row(value=value, metrics={"inside": value})])
        [stored] = store.rows()
        for back in (stored.value, stored.metrics["inside"]):
            assert (repr(back), type(back)) == (repr(value), type(value))

    def test_a_metric_may_be_infinite_or_not_a_number(self, store: Store) -> None:
        store.put([a_row(metrics={"sharpe": float("nan"), "factor": [float("inf"), float("-inf")]})])
        [stored] = store.rows()
        assert isnan(stored.metrics["sharpe"])
        assert stored.metrics["factor"] == [float("inf"), float("-inf")]

    @pytest.mark.parametrize("variant", [True, 1, 1.0, "1", "true", "null", "NaN", '"1"', "90d", "a b/ü", "[", -0.5])
    def test_a_value_on_an_axis_keeps_its_type(self, store: Store, variant: str | float) -> None:
        others = [not variant, f"{variant}?", 17, 0.25, "other"]
        store.put([a_row(axes={"calibration": variant, "of interest": variant})])
        store.put([a_row(number, axes={"of interest": each}) for number, each in enumerate(others)])
        [stored] = store.rows(Filter(where={"of interest": variant}))
        for back in (stored.variant, stored.axes["of interest"]):
            assert (back, type(back)) == (variant, type(variant))

    def test_whole_numbers_are_found_as_floats_and_truth_values_are_no_numbers(self, store: Store) -> None:
        store.put([a_row(number, axes={"size": value}) for number, value in enumerate([1, True, "1"])])
        for wanted, number in ((1, 0), (1.0, 0), (True, 1), ("1", 2)):
            assert store.keys(Filter(where={"size": wanted})) == {key(number)}

    def test_several_axes_may_be_compared_and_all_keep_their_order(self, store: Store) -> None:
        axes: dict[str, Value] = {"model": "svm", "C": 10, "dataset": "Weiß", "cv": 3, "a": True}
        store.put([Row(run_key=key("grid"), sweep="models", axes=axes, compared=("model", "C"), metrics={"f1": 0.5})])
        [stored] = store.rows(Filter(sweep="models", where={"C": 10, "dataset": "Weiß"}))
        assert (list(stored.axes.items()), stored.compared) == (list(axes.items()), ("model", "C"))
        assert stored.variant == "svm/10"
        assert store.keys(Filter(where={"model": "svm", "C": 11})) == store.keys(Filter(where={"colour": 1})) == set()

    @pytest.mark.parametrize("axis", ["", 'a"b', "a/b", "a\\b", "a\nb", "\0", 3])
    def test_an_axis_that_sql_could_not_name_is_refused(self, store: Store, axis: Any) -> None:
        with pytest.raises(RowError):
            a_row(axes={axis: 1})
        with pytest.raises(RowError):
            store.keys(Filter(where={axis: 1}))

    def test_the_same_row_twice_is_there_once(self, store: Store) -> None:
        first = a_row()
        store.put([first])
        before = self.only(store)
        assert store.put([first, first]).fate is Fate.COMMITTED
        assert list(store.rows()) == [first]
        assert self.only(store).written_at == before.written_at

    def test_a_later_attempt_replaces_an_earlier_one(self, store: Store) -> None:
        store.put([a_row(attempt=1)])
        store.put([a_row(attempt=2, metrics={"sharpe": 2.0})])
        assert (self.only(store).attempt, self.only(store).metrics) == (2, {"sharpe": 2.0})

    def test_an_earlier_attempt_never_replaces_a_later_one(self, store: Store) -> None:
        store.put([a_row(attempt=2)])
        store.put([a_row(attempt=1)])
        assert self.only(store).attempt == 2

    def test_a_failed_row_never_replaces_a_finished_one(self, store: Store) -> None:
        store.put([a_row(attempt=1)])
        store.put([a_failed_row(attempt=2)])
        assert self.only(store) == a_row(attempt=1)

    def test_a_finished_row_replaces_a_failed_one_even_of_a_later_attempt(self, store: Store) -> None:
        store.put([a_failed_row(attempt=2)])
        store.put([a_row(attempt=1)])
        assert self.only(store) == a_row(attempt=1)

    def test_of_two_different_rows_of_one_attempt_the_same_one_stays_whatever_comes_last(self, store: Store) -> None:
        rows = [a_row(elapsed_s=seconds) for seconds in (1.0, 2.0, 3.0)]
        store.put(rows)
        kept = self.only(store)
        for order in itertools.permutations(rows):
            for row in order:
                store.put([row])
            assert self.only(store) == kept

    def test_one_put_may_hold_several_attempts_of_one_row(self, store: Store) -> None:
        attempts = [a_failed_row(attempt=1), a_row(attempt=3), a_row(attempt=2), a_failed_row(attempt=4)]
        assert store.put(attempts).rows == 4
        assert self.only(store) == a_row(attempt=3)

    def test_a_row_marked_failed_counts_no_longer_and_keeps_what_it_was(self, store: Store) -> None:
        store.put([a_row("good"), a_row("bad")])
        assert store.mark_failed([key("bad"), key("bad"), key("not there")], "wrong prices in March") == 1
        marked = self.only(store, "bad")
        assert (marked.run_status, marked.marked, marked.error) == (RowStatus.FAILED, True, "wrong prices in March")
        assert (marked.axes, marked.attempt, marked.metrics) == (AXES, 1, a_row("bad").metrics)
        assert store.keys(Filter(run_status=RowStatus.FINISHED)) == {key("good")}

    def test_a_late_row_of_a_marked_attempt_or_an_earlier_one_changes_nothing(self, store: Store) -> None:
        store.put([a_failed_row(attempt=2)])
        store.mark_failed([key("row")], "hung for an hour")
        store.put([a_row(attempt=2), a_row(attempt=1), a_failed_row(attempt=3)])
        assert (self.only(store).marked, self.only(store).error) == (True, "hung for an hour")

    def test_a_finished_row_of_a_later_attempt_takes_the_place_of_a_marked_one(self, store: Store) -> None:
        store.put([a_row(attempt=1)])
        store.mark_failed([key("row")], "wrong prices")
        store.put([a_row(attempt=2)])
        assert self.only(store) == a_row(attempt=2)
        assert store.mark_failed([key("row")], "wrong again") == 1
        store.put([a_row(attempt=2)])
        assert self.only(store).error == "wrong again"

    def test_whoever_computes_a_marked_row_again_learns_from_which_attempt_to_count(self, store: Store) -> None:
        store.put([a_row("good"), a_row("bad", attempt=3), a_failed_row("failed")])
        store.mark_failed([key("bad")], "wrong prices")
        rows = store.find([key(name) for name in ("good", "bad", "failed")])
        assert {run_key: row.attempt for run_key, row in rows.items() if row.marked} == {key("bad"): 3}
        store.put([a_row("bad", attempt=4)])
        assert (self.only(store, "bad").finished, self.only(store, "bad").marked) == (True, False)

    def test_marking_twice_keeps_the_first_reason_and_counts_once(self, store: Store) -> None:
        store.put([a_row()])
        assert [store.mark_failed([key("row")], reason) for reason in ("first", "second")] == [1, 0]
        assert self.only(store).error == "first"

    def test_marking_needs_keys_and_a_reason_and_an_empty_list_is_fine(self, store: Store) -> None:
        store.put([a_row()])
        for keys, reason in ((key("row"), "why"), ([key("row")], " ")):
            with pytest.raises(RowError):
                store.mark_failed(keys, reason)
        assert store.mark_failed([], "why") == 0
        assert self.only(store).finished

    def test_a_mark_is_there_when_the_store_is_opened_again(self, open_store: Opener) -> None:
        with open_store() as store, open_store() as other:
            store.put([a_row()])
            assert other.mark_failed([key("row")], "wrong prices") == 1
        with open_store() as store:
            store.put([a_row()])
            assert self.only(store).error == "wrong prices"

    def test_a_finished_row_cannot_be_marked_by_hand(self) -> None:
        with pytest.raises(RowError, match="only a failed row"):
            a_row(marked=True)

    def test_a_failed_row_says_why_whatever_is_in_the_text(self, store: Store) -> None:
        store.put([a_failed_row(error="cannot read 'caf\udce9.csv'\0 at line 3")])
        assert self.only(store).error == "cannot read 'caf\\udce9.csv'\\x00 at line 3"

    def test_rows_can_be_chosen_by_what_they_are(self, store: Store) -> None:
        rows = [
            a_row((variant, asset, fold), axes={"calibration": variant, "asset": asset, "fold": fold})
            for variant, asset, fold in itertools.product(("a", "b"), ("X", "Y Z/ü"), (0, 1, 2, 20.5))
        ]
        store.put([*rows, a_failed_row("failed", sweep="other")])
        assert len(store.keys()) == 17
        assert store.keys(Filter(sweep="calibration")) == {row.run_key for row in rows}
        assert {row.axes["asset"] for row in store.rows(Filter(where={"asset": "Y Z/ü"}))} == {"Y Z/ü"}
        wanted: dict[str, Value] = {"calibration": "b", "asset": "X", "fold": 20.5}
        [chosen] = store.rows(Filter(sweep="calibration", where=wanted))
        assert chosen == a_row(("b", "X", 20.5), axes=wanted)
        assert store.keys(Filter(run_status=RowStatus.FAILED)) == store.keys(Filter(sweep="other"))
        assert store.keys(Filter(sweep="calibration", run_status=RowStatus.FAILED)) == set()

    def test_many_rows_are_found_by_their_keys_at_once(self, store: Store) -> None:
        store.put([a_row(number) for number in range(1500)])
        wanted = [key(number) for number in range(0, 4000, 2)]
        rows = store.find([*wanted, *wanted])
        assert rows == {key(number): a_row(number) for number in range(0, 1500, 2)}
        assert store.find(iter([])) == {}
        with pytest.raises(RowError):
            store.find(key(1))

    def test_rows_come_in_the_order_they_were_written(self, store: Store) -> None:
        names = [5, 3, 4, 1, 2]
        for when, name in enumerate(names):
            store.put([a_row(name, written_at=float(when))])
        assert [row.run_key for row in store.rows()] == [key(name) for name in names]

    def test_rows_are_taken_from_any_iterable_and_none_are_fine(self, store: Store) -> None:
        assert store.put(a_row(number) for number in range(3)).rows == 3
        assert store.put([]).fate is Fate.COMMITTED
        assert len(store.keys()) == 3

    def test_what_is_not_a_row_is_refused_and_nothing_is_written(self, store: Store) -> None:
        for wrong in ([a_row(), {"run_key": key("x")}], a_row(), [None]):
            with pytest.raises(RowError):
                store.put(wrong)  # type: ignore[arg-type]
        assert store.keys() == set()

    def test_a_submitted_row_is_there_when_its_receipt_is(self, store: Store) -> None:
        receipts = [(a_row(number), store.submit([a_row(number)])) for number in range(200)]
        for row, receipt in receipts:
            assert receipt.result(timeout=60).fate is Fate.COMMITTED
            assert store.get(row.run_key) == row

    def test_a_receipt_that_nobody_wants_any_more_is_written_all_the_same(self, store: Store) -> None:
        receipt = store.submit([a_row()])
        assert not receipt.cancel()
        assert receipt.result(timeout=60).fate is Fate.COMMITTED

    def test_several_threads_may_write_and_read_at_once(self, store: Store) -> None:
        def write(thread: int) -> None:
            for number in range(25):
                assert store.put([a_row((thread, number))]).fate is Fate.COMMITTED
                assert store.get(key((thread, number))) is not None

        threads = [threading.Thread(target=write, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert store.keys() == {key((thread, number)) for thread in range(4) for number in range(25)}

    def test_a_callback_that_puts_more_rows_does_not_wait_for_ever(self, store: Store) -> None:
        ended = threading.Event()

        def put_more(_: object) -> None:
            with suppress(StoreError):
                store.put([a_row("second")])
            ended.set()

        store.submit([a_row("first")] * 5000).add_done_callback(put_more)
        assert ended.wait(timeout=60), "the callback waits for the thread it runs in"

    def test_everything_is_there_when_the_store_is_opened_again(self, open_store: Opener) -> None:
        with open_store() as store:
            store.put([a_row(number) for number in range(10)])
            store.put_run(SweepRun(id="run-1/calibration", sweep="calibration", started=1.0, expected=10))
        with open_store() as store:
            assert set(store.rows()) == {a_row(number) for number in range(10)}
            assert [run.id for run in store.runs()] == ["run-1/calibration"]

    def test_rows_submitted_before_closing_are_written(self, open_store: Opener) -> None:
        with open_store() as store:
            receipts = [store.submit([a_row(number)]) for number in range(100)]
        assert all(receipt.result(timeout=0).fate is Fate.COMMITTED for receipt in receipts)
        with open_store() as store:
            assert len(store.keys()) == 100

    def test_two_that_have_it_open_see_each_others_rows(self, store: Store, open_store: Opener) -> None:
        with open_store() as other:
            store.put([a_row("one")])
            other.put([a_row("two")])
            assert store.keys() == other.keys() == {key("one"), key("two")}
            assert store.waiting == other.waiting == 0

    def test_reading_all_rows_is_reading_one_moment(self, store: Store) -> None:
        store.put([a_row(number) for number in range(2000)])
        reading = store.rows()
        next(reading)
        store.put([a_row("later")])
        assert len(list(reading)) == 1999
        assert len(store.keys()) == 2001

    def test_a_sweeps_entry_follows_it_to_its_end_and_not_back(self, store: Store) -> None:
        started: dict[str, Any] = {"id": "run-1/calibration", "sweep": "calibration", "started": 10.0, "expected": 225}
        running = SweepRun(**started, target="local")
        ended = SweepRun(**started, ended=20.0, status=SweepStatus.FAILED, reason="2 rows are missing")
        for run in (running, ended, running):
            assert store.put_run(run).fate is Fate.COMMITTED
        assert store.runs() == [ended]

    def test_sweeps_are_listed_as_they_were_started(self, store: Store) -> None:
        starts = [SweepRun(id=f"{number}", sweep="ab"[number % 2], started=100.0 - number) for number in range(4)]
        for run in starts:
            store.put_run(run)
        assert [run.id for run in store.runs()] == ["3", "2", "1", "0"]
        assert [run.id for run in store.runs("a")] == ["2", "0"]

    def test_attempts_are_noted_by_row_and_number_and_keep_their_end(self, store: Store) -> None:
        first = AttemptRow(run_key=key("a"), attempt=1, run_id="run-1", started=1.0)
        lost = replace(first, ended=2.0, cause="worker lost")
        others = [replace(first, attempt=2, run_id="run-2", started=3.0), replace(first, run_key=key("b"))]
        for attempts in ([others[0], first], [lost], [first], [others[1]]):
            assert store.submit_attempts(attempts).result(timeout=60).fate is Fate.COMMITTED
        assert store.attempts([key("a"), key("b"), key("c")]) == {key("a"): [lost, others[0]], key("b"): [others[1]]}
        assert store.attempts([]) == {} and store.keys() == set()

    def test_an_attempt_has_a_row_a_number_and_both_or_none_of_end_and_cause(self) -> None:
        given: dict[str, Any] = {"run_key": key("a"), "attempt": 1, "run_id": "run-1", "started": 1.0}
        for wrong in ({"run_key": "a"}, {"attempt": 0}, {"ended": 2.0}, {"cause": "stuck"}, {"run_id": ""}):
            with pytest.raises(RowError):
                AttemptRow(**{**given, **wrong})

    def test_a_row_knows_the_run_that_computed_it(self, store: Store) -> None:
        store.put([a_row(1, run_id="run-1"), a_row(2)])
        assert {row.run_id for row in store.rows()} == {"run-1", None}

    def test_a_closed_store_says_so(self, open_store: Opener) -> None:
        store = open_store()
        store.close()
        store.close()
        for use in (
            lambda: store.put([a_row()]), store.keys, lambda: list(store.rows()), store.runs, store.replay,
            store.config, store.dead_letters, store.incidents, store.leases, lambda: store.find([]),
            lambda: store.attempts([]), lambda: store.submit_attempts([]),
        ):  # fmt: skip
            with pytest.raises(StoreError, match="closed"):
                use()

    @staticmethod
    def only(store: Store, name: object = "row") -> Row:
        row = store.get(key(name))
        assert row is not None
        return row
