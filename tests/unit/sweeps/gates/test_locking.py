"""Lock and advance on a real store: who may be locked, what is kept of it, and how it is undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scalable.errors import UsageError
from scalable.store import ConfigChanged, Store, open_store
from scalable.sweeps.decisions import Decision, decide
from scalable.sweeps.locking import LockRefused, in_force, lock, undo
from tests.helpers.sweeps.gates.builders import a_cell, an_outcome


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/results.db") as opened:
        yield opened


@pytest.fixture(scope="module")
def decision() -> Decision:
    return decide(an_outcome({"isotonic": {"sharpe": 2.0, "sortino": 2.0}, "sigmoid": {"sharpe": 0.1}}))


def test_a_winner_becomes_part_of_the_base_with_its_figures_as_reason(store: Store, decision: Decision) -> None:
    locked = lock(store, decision, "isotonic")
    assert locked.changed
    assert store.config().base_env == {"calibration": "isotonic"}
    assert store.config().reason.startswith("decided by calibration: better: sharpe +0.0")


def test_what_was_locked_before_stays_in_the_base(store: Store, decision: Decision) -> None:
    store.set_config({"cleanlab": "prune"}, factor="cleanlab", variant="prune", reason="it won", expect_version=0)
    lock(store, decision, "isotonic")
    assert store.config().base_env == {"cleanlab": "prune", "calibration": "isotonic"}


def test_another_verdict_is_refused_with_the_reason_and_the_way_around(store: Store, decision: Decision) -> None:
    with pytest.raises(LockRefused, match=r"KEEP_AVAILABLE.*as many assets and periods.*--force --reason"):
        lock(store, decision, "sigmoid")
    assert store.config().version == 0


def test_a_variant_with_a_missing_row_is_not_locked(store: Store) -> None:
    gains = {"isotonic": {"sharpe": 2.0, "sortino": 2.0}}
    incomplete = decide(an_outcome(gains, without=lambda cell: cell == a_cell("isotonic", "OPUSDC", 4, 30.0)))
    with pytest.raises(LockRefused, match="1 row missing: isotonic OPUSDC fold 4 cost_bps 30"):
        lock(store, incomplete, "isotonic")


def test_force_needs_a_reason_and_keeps_it_beside_the_verdict(store: Store, decision: Decision) -> None:
    with pytest.raises(UsageError, match="needs a reason"):
        lock(store, decision, "sigmoid", force=True, reason="  ")
    lock(store, decision, "sigmoid", force=True, reason="agreed on 3 May")
    reason = store.config().reason
    assert reason.startswith("forced: agreed on 3 May (the verdict was KEEP_AVAILABLE: ")


def test_a_very_long_reason_is_cut_and_stored(store: Store, decision: Decision) -> None:
    lock(store, decision, "sigmoid", force=True, reason="because " * 1000)
    assert store.config().reason.endswith("…")


def test_the_baseline_may_always_be_locked(store: Store, decision: Decision) -> None:
    assert lock(store, decision, "none").config.base_env == {"calibration": "none"}


@pytest.mark.parametrize("variant", ["isotonic", "none"])
def test_nothing_replaces_a_locked_variant_that_it_was_not_compared_with(
    store: Store, decision: Decision, variant: str
) -> None:
    store.set_config({"calibration": "beta"}, factor="calibration", variant="beta", reason="it won", expect_version=0)
    with pytest.raises(LockRefused, match=r"calibration beta is, .* Add beta to sweep calibration"):
        lock(store, decision, variant)
    assert lock(store, decision, variant, force=True, reason="beta is gone").config.base_env == {"calibration": variant}


def test_locking_twice_changes_nothing(store: Store, decision: Decision) -> None:
    lock(store, decision, "isotonic")
    again = lock(store, decision, "isotonic")
    assert not again.changed
    assert again.config.version == 1


def test_an_unknown_variant_is_answered_with_those_there_are(store: Store, decision: Decision) -> None:
    with pytest.raises(UsageError, match="it has none, sigmoid, isotonic"):
        lock(store, decision, "platt")


def test_of_two_who_lock_on_the_same_base_the_slower_is_refused(store: Store, decision: Decision) -> None:
    base = store.config()
    lock(store, decision, "none", on=base)
    with pytest.raises(ConfigChanged):
        lock(store, decision, "isotonic", on=base)
    assert store.config().base_env == {"calibration": "none"}


def test_undo_goes_back_lock_by_lock_and_not_to_and_fro(store: Store, decision: Decision) -> None:
    store.set_config({"cleanlab": "prune"}, factor="cleanlab", variant="prune", reason="it won", expect_version=0)
    lock(store, decision, "none")
    lock(store, decision, "isotonic")
    assert undo(store, "prices were wrong").config.base_env == {"cleanlab": "prune", "calibration": "none"}
    assert store.config().reason == "undo of version 3: prices were wrong"
    assert store.config().variant == "none"
    assert undo(store).config.base_env == {"cleanlab": "prune"}
    assert undo(store).config.base_env == {}
    with pytest.raises(UsageError, match="nothing is locked"):
        undo(store)
    assert [entry.version for entry in store.config_history()] == [1, 2, 3, 4, 5, 6]  # nothing is forgotten


def test_after_an_undo_locks_count_on(store: Store, decision: Decision) -> None:
    lock(store, decision, "none")
    undo(store)
    lock(store, decision, "isotonic")
    assert [entry.version for entry in in_force(store.config_history())] == [3]
    assert undo(store).config.base_env == {}


def test_a_reason_that_looks_like_an_undo_is_none(store: Store, decision: Decision) -> None:
    lock(store, decision, "isotonic")
    lock(store, decision, "sigmoid", force=True, reason="undo of version 1")
    assert len(in_force(store.config_history())) == 2
