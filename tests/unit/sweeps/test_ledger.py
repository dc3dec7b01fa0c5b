"""Decisions that are counted: what is another look, what another decision, and what a ledger that fails changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalable.store import DecisionRow, Store, StoreError, open_store
from scalable.sweeps.decisions import Decision, Verdict, compared, decide
from scalable.sweeps.ledger import (
    decide_and_record,
    decide_without_ledger,
    decide_without_recording,
    fingerprint,
    record_lock,
    record_untested_lock,
)
from scalable.sweeps.questions import Question
from scalable.sweeps.results import Outcome
from scalable.verdicts.ledger import Control
from scalable.verdicts.rule import ALPHA
from tests.helpers.sweeps.gates.builders import TRADING, VARIANTS, a_cell, an_outcome, cells

GAINS = {"isotonic": {"sharpe": 2.0, "sortino": 2.0}}
PROGRAMME = Control.PROGRAMME


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/results.db") as opened:
        yield opened


class Broken:
    """A store whose ledger can be read, or not even that."""

    def __init__(self, entries: list[DecisionRow] | None) -> None:
        self.entries = entries

    def ledger(self, sweep: str | None = None) -> list[DecisionRow]:
        if self.entries is None:
            raise StoreError("store x does not answer")
        return self.entries

    def record_decision(self, decision: DecisionRow) -> DecisionRow:
        raise StoreError("store x is read-only")


def place(decision: Decision) -> tuple[int | None, int, int, int]:
    ledger = decision.ledger
    return ledger.number, ledger.looks, ledger.sweeps, ledger.variants


def data_of(outcome: Outcome) -> str:
    comparison = compared(outcome)
    assert comparison is not None
    return fingerprint(comparison)


def test_a_decision_is_entered_with_everything_that_it_rests_on(store: Store) -> None:
    outcome = an_outcome(GAINS)
    decision = decide_and_record(outcome, store)
    [entry] = store.ledger()
    assert (entry.sweep, entry.primary_metric, entry.method) == ("calibration", "sharpe", decision.method)
    assert (entry.data, entry.baseline, entry.level) == (data_of(outcome), "none", ALPHA)
    assert {each["variant"]: each["verdict"] for each in entry.verdicts} == {
        "sigmoid": "KEEP_AVAILABLE", "isotonic": "LOCK",
    }  # fmt: skip
    assert (entry.variants, entry.looks, entry.locks) == (2, 1, ())
    assert place(decision) == (1, 1, 1, 2)
    assert decision.ledger.expected_false_locks == 0.05
    assert replace(decision, ledger=decide(outcome).ledger, data="") == decide(outcome), "the verdicts are the same"


def test_looking_again_at_the_same_rows_is_no_other_decision(store: Store) -> None:
    for looks in (1, 2, 3):
        assert place(decide_and_record(an_outcome(GAINS), store)) == (1, looks, 1, 2)


def test_other_rows_of_the_same_sweep_are_another_decision(store: Store) -> None:
    assert [place(decide_and_record(an_outcome(GAINS, seed=seed), store))[:3] for seed in (0, 1, 0)] == [
        (1, 1, 1), (2, 1, 2), (1, 2, 2),
    ]  # fmt: skip
    assert decide_and_record(an_outcome(GAINS, seed=2), store).ledger.expected_false_locks == pytest.approx(0.15)


@pytest.mark.parametrize("changed", ["one value", "a row less", "another primary metric"])
def test_what_could_lock_something_else_is_another_decision(store: Store, changed: str) -> None:
    outcome = an_outcome(GAINS)
    decide_and_record(outcome, store)
    gone = a_cell("sigmoid", "OPUSDC", 4, 30.0)
    match changed:
        case "one value":
            key, row = next(iter(outcome.rows.items()))
            other = replace(outcome, rows={**outcome.rows, key: replace(row, metrics={**row.metrics, "f1": 0.123})})
        case "a row less":
            other = an_outcome(GAINS, failing=lambda cell: cell == gone)
        case _:
            other = an_outcome(GAINS, question=replace(TRADING, primary="sortino"))
    assert place(decide_and_record(other, store)) == (2, 1, 2, 4)


@pytest.mark.parametrize("changed", ["order", "baseline", "no guards", "computed again"])
def test_what_locks_nothing_else_is_another_look(store: Store, changed: str) -> None:
    outcome = an_outcome(GAINS)
    decide_and_record(outcome, store)
    other: Outcome
    match changed:
        case "order":
            other = replace(outcome, expected=list(reversed(outcome.expected)))
            assert other.variants == tuple(reversed(VARIANTS))
        case "baseline":
            other = replace(outcome, baseline="isotonic")
        case "no guards":
            other = replace(outcome, question=Question("sharpe"))
        case _:
            renamed = {key: f"{key[::-1]}" for key in outcome.rows}
            expected = [(renamed[key], cell) for key, cell in outcome.expected]
            other = replace(outcome, expected=expected, rows={renamed[key]: row for key, row in outcome.rows.items()})
    assert place(decide_and_record(other, store)) == (1, 2, 1, 2)


def test_a_decision_that_can_lock_nothing_is_not_entered(store: Store) -> None:
    nothing = an_outcome(GAINS, failing=lambda cell: cell.variant == ("none",))
    without_rows = an_outcome(GAINS, without=lambda cell: True)
    alone = an_outcome(GAINS, of=cells(["none"]))
    for outcome in (nothing, without_rows, alone):
        decision = decide_and_record(outcome, store)
        assert (decision.decided, decision.ledger.number, decision.ledger.sweeps) == (False, None, 0)
    assert store.ledger() == []
    partly = an_outcome(GAINS, failing=lambda cell: cell.variant == ("sigmoid",))
    assert place(decide_and_record(partly, store)) == (1, 1, 1, 2), "isotonic could be locked"


def test_a_page_reads_the_ledger_and_counts_nothing(store: Store) -> None:
    assert place(decide_without_recording(an_outcome(GAINS), store)) == (None, 0, 0, 0)
    assert store.ledger() == []
    decide_and_record(an_outcome(GAINS), store)
    assert place(decide_without_recording(an_outcome(GAINS), store)) == (1, 1, 1, 2)
    assert place(decide_without_recording(an_outcome(GAINS, seed=1), store)) == (None, 0, 1, 2)
    assert [entry.looks for entry in store.ledger()] == [1]


def test_a_controlled_programme_judges_each_further_decision_more_strictly(store: Store) -> None:
    levels = [decide_and_record(an_outcome(GAINS, seed=seed), store, PROGRAMME).level for seed in (0, 1, 2, 0)]
    assert levels == pytest.approx([0.025, 0.05 / 6, 0.05 / 12, 0.025]), "another look keeps its own level"
    assert sum(entry.level or 0 for entry in store.ledger()) < ALPHA


def test_control_takes_away_a_lock_that_many_decisions_would_give_by_chance(store: Store) -> None:
    outcome = an_outcome({"isotonic": {"sharpe": 0.5}}, seed=4)
    alone = decide(outcome).of("isotonic")
    assert alone is not None and alone.verdict is Verdict.LOCK
    for seed in range(10, 25):
        decide_and_record(an_outcome(seed=seed), store, PROGRAMME)
    controlled = decide_and_record(outcome, store, PROGRAMME)
    result = controlled.of("isotonic")
    assert result is not None and result.verdict is Verdict.KEEP_AVAILABLE
    assert (controlled.ledger.number, controlled.recommended) == (16, None)


def test_who_is_overtaken_is_judged_at_the_level_of_the_place_that_it_gets(store: Store) -> None:
    class Overtaken:
        """A store in which somebody else decides between reading and writing."""

        def ledger(self, sweep: str | None = None) -> list[DecisionRow]:
            return store.ledger(sweep)

        def record_decision(self, decision: DecisionRow) -> DecisionRow:
            if not store.ledger():
                decide_and_record(an_outcome(GAINS, seed=7), store, PROGRAMME)
            return store.record_decision(decision)

    decision = decide_and_record(an_outcome(GAINS), Overtaken(), PROGRAMME)
    assert decision.level == pytest.approx(0.05 / 6)
    assert decision.ledger.number == 2


def test_a_ledger_that_cannot_be_written_does_not_change_the_verdicts_and_is_told() -> None:
    outcome = an_outcome(GAINS)
    decision = decide_and_record(outcome, Broken([]))
    assert decision.variants == decide(outcome).variants
    assert (decision.ledger.problem, decision.ledger.number) == ("store x is read-only", None)
    assert "could not be written: store x is read-only" in str(decision.ledger)
    assert decision.to_dict()["ledger"]["problem"] == "store x is read-only"


@pytest.mark.parametrize(("control", "recommended"), [(Control.SWEEP, "isotonic"), (PROGRAMME, None)])
def test_an_unreadable_ledger_locks_nothing_in_a_controlled_programme(control: Control, recommended: Any) -> None:
    for decision in (
        decide_and_record(an_outcome(GAINS), Broken(None), control),
        decide_without_ledger(an_outcome(GAINS), control, "store x does not answer"),
    ):
        assert (decision.recommended, decision.ledger.problem) == (recommended, "store x does not answer")


def test_locks_are_noted_with_the_decision_that_they_rest_on(store: Store) -> None:
    decision = decide_and_record(an_outcome(GAINS), store)
    assert record_lock(store, decision, "sigmoid", "forced: agreed", forced=True) == ""
    [entry] = store.ledger()
    [lock] = entry.locks
    assert (lock["variant"], lock["forced"], lock["reason"]) == ("sigmoid", True, "forced: agreed")
    assert record_lock(Broken([]), decision, "sigmoid", "why", forced=True) == "store x is read-only"
    unread = decide_without_ledger(an_outcome(GAINS), PROGRAMME, "store x does not answer")
    assert record_lock(store, unread, "sigmoid", "why", forced=True) == "store x does not answer"


def test_a_forced_lock_that_no_sweep_tested_is_noted_and_not_counted(store: Store) -> None:
    for version in (1, 2):
        assert record_untested_lock(store, "cusum", True, "forced: agreed", version) == ""
    assert [(entry.sweep, entry.decided, entry.looks) for entry in store.ledger()] == [("cusum", False, 1)] * 2
    assert place(decide_and_record(an_outcome(GAINS), store)) == (1, 1, 1, 2)


def test_a_notebook_shows_the_count_below_the_table(store: Store) -> None:
    decision = decide_and_record(an_outcome(GAINS), store)
    assert "decision 1 on this project (2 variants tried)" in decision._repr_html_()
    assert "this project" not in decide(an_outcome(GAINS))._repr_html_()
