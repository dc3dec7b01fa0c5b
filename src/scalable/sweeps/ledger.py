"""Decisions that are counted: each is entered into the store's ledger, and may be judged by how many there were before.

A decision is the same as an earlier one if sweep, rows, primary metric and method are the same: looking again is no
further chance of a false LOCK. Which variant is the baseline does not matter, so a lock does not make a new decision of
the rows that it rests on. The ledger never holds up a decision: if it cannot be read or written, the decision says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from scalable.axes import Value
from scalable.store import DecisionRow, StoreError
from scalable.sweeps.decisions import Decision, compared, decide
from scalable.sweeps.results import Outcome, Variant
from scalable.verdicts.ledger import Control, Tally, level_of, tally
from scalable.verdicts.methods import choose
from scalable.verdicts.rule import ALPHA
from scalable.verdicts.tables import Comparison

if TYPE_CHECKING:
    from scalable.manifest.models import Manifest


class LedgerStore(Protocol):
    """The store methods that the ledger uses."""

    def record_decision(self, decision: DecisionRow) -> DecisionRow: ...

    def ledger(self, sweep: str | None = None) -> list[DecisionRow]: ...


def control_of(manifest: Manifest) -> Control:
    """Return which decisions share a chance of 5 % of a false LOCK."""
    return Control(manifest.policies.verdicts.control)


def decide_and_record(outcome: Outcome, store: LedgerStore, control: Control = Control.SWEEP) -> Decision:
    """Judge every variant of a sweep and enter the decision into the ledger, or count another look at it.

    A decision in which no variant has all its rows can lock nothing and is not entered.
    """
    decision = decide_without_recording(outcome, store, control)
    if not decision.decided or decision.ledger.problem:
        return decision
    try:
        entry = store.record_decision(entry_of(decision))
        entries = store.ledger()
        if level_of(number_of(entry.id, entries), control) != decision.level:  # somebody was quicker to decide
            decision = judged(outcome, entries, control)
            store.record_decision(entry_of(decision))
    except StoreError as error:
        return replace(decision, ledger=replace(decision.ledger, problem=str(error)))
    return replace(decision, ledger=tally_of(entries, entry.id, decision.level, control))


def decide_without_recording(outcome: Outcome, store: LedgerStore, control: Control = Control.SWEEP) -> Decision:
    """Judge every variant of a sweep as ``decide_and_record`` does; only read the ledger.

    For pages that show verdicts again and again, and for those who have yet to see whether a lock is allowed.
    """
    try:
        entries = store.ledger()
    except StoreError as error:
        return decide_without_ledger(outcome, control, str(error))
    return judged(outcome, entries, control)


def decide_without_ledger(outcome: Outcome, control: Control, problem: str) -> Decision:
    """Judge every variant of a sweep where the ledger cannot be read, and say why it cannot.

    Nobody knows then how strict programme-wide control would be, so with it nothing is locked.
    """
    level = ALPHA if control is Control.SWEEP else 0.0
    return replace(decide(outcome, level=level), ledger=Tally(level=level, control=control, problem=problem))


def record_lock(store: LedgerStore, decision: Decision, variant: Variant, why: str, *, forced: bool) -> str:
    """Note a lock with the decision that it rests on, forced or not; return why that failed, empty if it did not."""
    if decision.ledger.problem:
        return decision.ledger.problem
    lock = {"variant": variant, "forced": forced, "reason": why}
    return recorded(store, replace(entry_of(decision), locks=(lock,)))


def record_untested_lock(store: LedgerStore, factor: str, variant: Variant, why: str, version: int) -> str:
    """Note a forced lock of a variant that no sweep compared; ``version`` is that of the configuration with it."""
    lock = {"variant": variant, "forced": True, "reason": why}
    id = identity(factor, "untested", version)
    return recorded(store, DecisionRow(id=id, sweep=factor, decided=False, locks=(lock,)))


def recorded(store: LedgerStore, entry: DecisionRow) -> str:
    try:
        store.record_decision(entry)
    except StoreError as error:
        return str(error)
    return ""


def judged(outcome: Outcome, entries: Sequence[DecisionRow], control: Control) -> Decision:
    """Return the decision at the level that its place among the entries gives it."""
    comparison = compared(outcome)
    if comparison is None:
        return replace(decide(outcome), ledger=tally_of(entries, "", ALPHA, control))
    data, primary = fingerprint(comparison), comparison.primary
    id = identity(outcome.sweep, data, primary, comparison.higher[primary], str(choose(comparison.axes)))
    level = level_of(number_of(id, entries), control)
    decision = decide(outcome, comparison, level)
    return replace(decision, data=data, ledger=tally_of(entries, id, level, control))


def number_of(id: str, entries: Sequence[DecisionRow]) -> int:
    """Return the place of a decision among those that are counted: its own, or the next if it is not there."""
    counted = [entry.id for entry in entries if entry.decided]
    return counted.index(id) + 1 if id in counted else len(counted) + 1


def tally_of(entries: Sequence[DecisionRow], id: str, level: float, control: Control) -> Tally:
    """Return the counts of a ledger, and the place of one decision in it."""
    this = next((entry for entry in entries if entry.decided and entry.id == id), None)
    total = replace(ledger_tally(entries, control), level=level)
    return total if this is None else replace(total, number=number_of(id, entries), looks=this.looks)


def ledger_tally(entries: Sequence[DecisionRow], control: Control) -> Tally:
    """Return the counts of a ledger; ``level`` is that of a decision that would be the next."""
    counts = tally((entry.variants, entry.level or 0.0) for entry in entries if entry.decided)
    return replace(counts, level=level_of(counts.sweeps + 1, control), control=control)


def entry_of(decision: Decision) -> DecisionRow:
    """Return the entry of a decision, as ``judged`` gives it."""
    return DecisionRow(
        id=identity(decision.sweep, decision.data, decision.primary, decision.higher, decision.method),
        sweep=decision.sweep,
        decided=decision.decided,
        data=decision.data or None,
        baseline=decision.baseline,
        primary_metric=decision.primary or None,
        method=decision.method,
        level=decision.level,
        variants=len(decision.variants),
        verdicts=[{"variant": each.variant, "verdict": each.verdict.value} for each in decision.variants],
    )


def identity(*parts: Any) -> str:
    """Return a digest of what makes two decisions one: the sweep, its rows, the primary metric, its better direction
    and the method.

    Guards, bars and the smallest difference only take locks away, so changing them is no further chance of a false one.
    """
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def fingerprint(comparison: Comparison) -> str:
    """Return a fingerprint of the rows that are judged: every metric of every variant on every block.

    The order of variants, blocks and metrics does not count, nor which variant is the baseline, nor in which run the
    rows were computed: rows that were computed again to the same values are the same.
    """
    sides = [(comparison.baseline, *comparison.variants), *(axis.values for axis in comparison.axes)]
    orders = [in_order(values) for values in sides]
    names = ["variant", *(axis.name for axis in comparison.axes)]
    hashed = blake2b(digest_size=16)
    for name, values, order in zip(names, sides, orders, strict=True):
        hashed.update(repr((name, [values[at] for at in order])).encode())
    for name in sorted(comparison.metrics):
        hashed.update(repr(name).encode())
        hashed.update(comparison.metrics[name][np.ix_(*orders)].astype("<f8").tobytes())
    return hashed.hexdigest()


def in_order(values: Sequence[Value]) -> list[int]:
    """Return the positions of values in an order that does not depend on how they were written."""
    return sorted(range(len(values)), key=lambda at: repr(values[at]))
