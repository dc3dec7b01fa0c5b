"""A sweep: nothing twice, nothing lost, nothing called complete that is not."""

from __future__ import annotations

import asyncio
import math
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalable.engine.events import Paused, SweepKind
from scalable.errors import ScalableError, UnknownNameError
from scalable.observe import RunFolder
from scalable.session.driver.driver import SLOT, Driver
from scalable.session.driver.keeping import AttemptLedger
from scalable.session.sweep.execution import SweepExecution
from scalable.session.sweep.outcomes import SweepOutcome
from scalable.session.sweep.running import requested
from scalable.store import (
    AttemptRow,
    Fate,
    Filter,
    Receipt,
    RowStatus,
    Store,
    StoreError,
    SweepRun,
    SweepStatus,
    open_store,
)
from scalable.sweeps.results import counted
from tests.helpers.session.builders import Project
from tests.helpers.session.sweeps import AT_ONCE, Sweeps, sweeps
from tests.helpers.waiting import LONG_S, soon, until

STORE = "sqlite:///.scalable/results.db"
DIE = "from tests.helpers.session.virtual_workers import die; die"

pytestmark = pytest.mark.usefixtures("world")


__all__ = ["sweeps"]


@pytest.mark.parametrize(
    ("told", "buys"),
    [(7, 7), (7.0, 7), (7.5, None), (-1, None), (True, None), ("7", None)]
    + [(odd, None) for odd in (math.inf, -math.inf, math.nan)],
)
def test_buys_that_are_no_count_are_left_out_and_end_no_sweep(told: object, buys: int | None) -> None:
    assert counted(told) == buys


def test_a_workload_that_is_not_there_is_refused_before_anything_starts(sweeps: Sweeps) -> None:
    with pytest.raises(ScalableError, match="no_such_module"):
        sweeps.run(run="no_such_module:work")
    assert sweeps.project.runs() == []


def test_a_sweep_that_is_not_there_is_refused_with_those_there_are(sweeps: Sweeps) -> None:
    with pytest.raises(UnknownNameError, match="sweep 'trail' is not defined; known: trial"):
        sweeps.session().run_sweep("trail")


def test_every_cell_has_its_row_and_every_distinct_stage_is_computed_once(sweeps: Sweeps) -> None:
    outcome = sweeps.run()
    assert outcome.complete and outcome.computed == outcome.expected == 24
    rows = {tuple(row.axes.values()): row for row in sweeps.rows()}
    assert len(rows) == 24
    assert rows[2, "CCC", 1, 2.0].metrics == {"score": 5.0, "buys": 7}
    assert list(rows[2, "CCC", 1, 2.0].axes) == ["depth", "asset", "fold", "cost_bps"]
    assert {row.compared for row in rows.values()} == {("depth",)}
    assert sorted(sweeps.executed()) == sorted(
        [f"table {asset}" for asset in ("A", "BB", "CCC")]
        + [f"fitted {size} {depth} {fold}" for size in (1, 2, 3) for depth in (1, 2) for fold in (0, 1)]
    )
    assert outcome.executed == {"table": 3, "fitted": 12, "row": 24}


def test_a_second_start_computes_nothing_and_starts_nobody(sweeps: Sweeps) -> None:
    sweeps.run()
    before, runs = sweeps.executed(), sweeps.project.runs()
    again = sweeps.run()
    assert again.complete and again.computed == 0
    assert sweeps.executed() == before and sweeps.project.runs() == runs


def test_what_the_store_lacks_is_computed_from_what_is_kept(sweeps: Sweeps) -> None:
    sweeps.run()
    before = sweeps.rows()
    (sweeps.project.folder / ".scalable" / "results.db").unlink()
    (sweeps.project.folder / "executed.log").unlink()
    outcome = sweeps.run()
    assert outcome.computed == 24 and sweeps.executed() == []
    assert {row.run_key: row.metrics for row in sweeps.rows()} == {row.run_key: row.metrics for row in before}


def test_a_run_records_by_what_its_manifest_and_its_data_are_known(sweeps: Sweeps) -> None:
    def recorded() -> tuple[str, str]:
        (run,), (sweep,) = (sweeps.project.journal(kind) for kind in ("run-started", "sweep-started"))
        facts = RunFolder(sweeps.project.runs()[-1]).facts()
        assert facts["manifest_digest"] == run["manifest_digest"] and len(run["manifest_digest"]) == 16
        return run["manifest_digest"], sweep["data"]

    sweeps.rewrite(
        '@stage(reads=("asset",))', "@stage(reads=('asset',), inputs=lambda asset: Path('data').read_text())"
    )
    data = sweeps.project.folder / "data"
    data.write_text("prices", encoding="utf-8")
    sweeps.run(assets=["A"])
    manifest, prices = recorded()
    data.write_text("other prices", encoding="utf-8")
    sweeps.run(assets=["A"])
    assert recorded()[0] == manifest and recorded()[1] not in ("", prices)
    data.write_text("prices", encoding="utf-8")
    sweeps.run(assets=["A"], folds=3)
    assert recorded()[0] != manifest and recorded()[1] == prices


def test_only_rows_that_are_missing_are_computed(sweeps: Sweeps) -> None:
    sweeps.run(variants=[1])
    assert len(sweeps.rows()) == 12
    outcome = sweeps.run()
    assert outcome.complete and outcome.computed == 12 and outcome.expected == 24
    assert sweeps.grid() == 12 * "t" + 12 * "d"
    assert sum(line.startswith("table") for line in sweeps.executed()) == 3


def test_a_sweep_with_a_failed_row_is_not_complete_and_says_which_and_why(sweeps: Sweeps) -> None:
    blocker = sweeps.project.folder / "break-2-1"
    blocker.touch()
    outcome = sweeps.run()
    assert not outcome.complete and outcome.finished == 18 and len(outcome.failed) == 6
    assert "6 rows failed" in outcome.why() and "2 A fold 1 cost_bps 1: ValueError: depth 2" in outcome.why()
    failed = [row for row in sweeps.rows() if row.run_status is RowStatus.FAILED]
    assert {row.error for row in failed} == {"ValueError: depth 2 does not fit"}
    assert sweeps.project.ended()[0] == "failed"
    assert sweeps.grid() == 12 * "d" + 3 * "ddff"
    counts = sweeps.project.journal("gauge")[-1]["tasks"]["standard"]
    assert (counts["done"], counts["failed"]) == (9, 3)
    with open_store("sqlite:///.scalable/results.db") as store:
        assert [run.status for run in store.runs("trial")] == [SweepStatus.FAILED]
    blocker.unlink()
    mended = sweeps.run()
    assert mended.complete and mended.computed == 6
    assert sweeps.grid() == 12 * "t" + 3 * "ttdd"
    assert {row.attempt for row in sweeps.rows() if row.variant == 2 and row.axes["fold"] == 1} == {2}


def test_a_session_says_ok_of_itself_only_when_every_sweep_in_it_is_complete_by_its_end(project: Project) -> None:
    code = project.module("import os\ndef row(step, asset, fold): return {'score': 1 / (not os.path.exists('break'))}")
    blocker = project.folder / "break"
    blocker.touch()
    sweep = {"factor": "step", "run": f"{code}:row", "variants": [1], "assets": ["A"], "folds": 1, "run_minutes": 0.01}
    session = project.session(components={}, sweeps={"trial": sweep}, policies=AT_ONCE)
    with session:
        assert not session.run_sweep("trial").complete
    assert project.ended()[0] == "failed" and "1 row failed" in project.ended()[1]
    with session:
        assert not session.run_sweep("trial").complete
        blocker.unlink()
        assert session.run_sweep("trial").complete
    assert project.ended() == ("ok", "")


def test_a_plain_function_is_a_workload(project: Project) -> None:
    module = project.module("def score(depth, asset, fold):\n    return {'score': depth + len(asset) + fold}\n")
    sweep = {"factor": "depth", "variants": [1, 2], "assets": ["A"], "folds": 2, "run": f"{module}:score"}
    session = project.session(components={}, sweeps={"mine": sweep}, target={"processes": True})
    assert session.run_sweep("mine").complete
    with open_store("sqlite:///.scalable/results.db") as store:
        assert sorted(row.metrics["score"] for row in store.rows(Filter(sweep="mine"))) == [2, 3, 3, 4]


def test_rows_are_the_same_whatever_the_number_of_workers(sweeps: Sweeps, tmp_path: Path) -> None:
    sweeps.run()
    two = {row.run_key: row.metrics for row in sweeps.rows()}
    (tmp_path / ".scalable" / "results.db").unlink()
    for file in (tmp_path / ".scalable" / "artefacts").rglob("*"):
        if file.is_file():
            file.unlink()
    session = sweeps.session()
    session.run_sweep("trial", session.plan_sweep("trial", policy="aggressive"))
    assert {row.run_key: row.metrics for row in sweeps.rows()} == two


def test_rows_marked_as_failed_are_computed_afresh_whatever_is_kept(sweeps: Sweeps) -> None:
    sweeps.run()
    (sweeps.project.folder / "executed.log").unlink()
    with open_store("sqlite:///.scalable/results.db") as store:
        doubted = store.keys(Filter(sweep="trial", where={"asset": "BB", "depth": 2, "fold": 1}))
        assert store.mark_failed(doubted, "looks wrong") == 2
    outcome = sweeps.run()
    assert outcome.complete and outcome.computed == 2
    assert sweeps.executed() == ["table BB", "fitted 2 2 1"]
    assert {row.attempt for row in sweeps.rows() if row.run_key in doubted} == {2}


def test_what_a_stage_notes_is_in_the_journal_with_its_run(project: Project) -> None:
    code = """
    from scalable.worker.runner.notes import note

    def score(depth, asset, fold):
        note("label-cleaning", n_jobs=1, run="forged")
        return {"score": 1.0}
    """
    sweep = {"factor": "depth", "variants": [1], "assets": ["A"], "folds": 1, "run": f"{project.module(code)}:score"}
    project.session(components={}, sweeps={"mine": sweep}, target={"processes": True}).run_sweep("mine")
    [note] = project.journal("note")
    assert (note["event"], note["n_jobs"], note["run"], note["worker"]) == (
        "label-cleaning",
        1,
        "A fold 0",
        "standard-0",
    )


def test_a_manifest_may_have_components_and_sweeps(project: Project) -> None:
    module = project.module("def score(depth, asset, fold):\n    return {'score': 1.0}\n")
    sweep = {"factor": "depth", "variants": [1, 2], "assets": ["A"], "folds": 2, "run": f"{module}:score"}
    session = project.session(sweeps={"mine": sweep}, target={"processes": True, "max_workers": 2})
    assert session.run_sweep("mine").complete
    assert {record["tag"] for record in project.journal("worker-started")} == {"standard"}
    with session as client:
        assert client.submit(len, "abc", tag="demeter").result() == 3


def test_sweeps_over_the_same_cells_follow_each_other_in_one_session(project: Project) -> None:
    module = project.module("def score(depth, asset, fold, weight):\n    return {'score': depth * weight}\n")
    cells = {"factor": "depth", "variants": [1, 2], "assets": ["A"], "folds": 1, "run": f"{module}:score"}
    sweeps = {name: {**cells, "settings": {"weight": weight}} for weight, name in enumerate(("one", "two", "three"))}
    session = project.session(components={}, sweeps=sweeps, target={"processes": True})
    with session:
        assert [session.run_sweep(name).complete for name in sweeps] == [True] * 3
    names = {record["run"] for record in project.journal("run-ended")}
    assert names == {f"A {depth} fold 0{again}" for depth in (1, 2) for again in ("", " #2", " #3")}


def test_a_metric_that_is_no_number_fails_its_row_only(project: Project) -> None:
    code = "def score(depth, asset, fold):\n    return {'score': 1.0, 'kind': None if depth == 1 else object}\n"
    module = project.module(code)
    sweep = {"factor": "depth", "variants": [1, 2], "assets": ["A"], "folds": 2, "run": f"{module}:score"}
    outcome = project.session(components={}, sweeps={"mine": sweep}, target={"processes": True}).run_sweep("mine")
    assert outcome.finished == 2 and not outcome.missing
    assert len(outcome.failed) == 2 and len(set(outcome.failed.values())) == 1  # rows that fail alike say the same
    assert all("'kind' as a type" in reason for reason in outcome.failed.values())


def test_incidents_of_a_sweep_are_in_its_store_with_what_became_of_them(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = count()
    set_back = SimpleNamespace(time=lambda: time.time() - 3600 * next(hours), monotonic=time.monotonic)
    for module in ("sweep.execution", "driver.incidents"):  # where how long something took is told
        monkeypatch.setattr(f"scalable.session.{module}.time", set_back)
    code = """
    import pathlib
    from tests.helpers.session.virtual_workers import die

    def score(depth, asset, fold):
        once = pathlib.Path("died")
        if not once.exists():
            once.touch()
            die("crashed", "crashed with SIGSEGV")
        return {"score": 1.0}
    """
    sweep = {"factor": "depth", "variants": [1], "assets": ["A"], "folds": 1, "run": f"{project.module(code)}:score"}
    session = project.session(components={}, sweeps={"mine": sweep}, target={"processes": True}, policies=AT_ONCE)
    outcome = session.run_sweep("mine")
    assert outcome.complete and outcome.seconds > 0
    with open_store("sqlite:///.scalable/results.db") as store:
        [incident] = store.incidents("mine")
    assert (incident.kind, incident.run, incident.worker) == ("crashed", "A fold 0", "standard-0")
    assert incident.id == f"{project.runs()[-1].name}/1"
    assert re.match(r"retried: finished \d", incident.summary["outcome"])
    assert incident.summary["versions"]["numpy"] == np.__version__, "for who has only the store"


def test_rows_that_are_lost_with_their_process_say_that_others_were_computed_in_it(sweeps: Sweeps) -> None:
    sweeps.rewrite('    note(f"fitted', f"    {DIE}('crashed', 'left'); note(f\"fitted")
    outcome = sweeps.run(variants=[1], assets=["A"], folds=1)
    [why] = set(outcome.failed.values())
    assert len(outcome.failed) == 2 and "left" in why and why.endswith("(computed together with 1 other row)")


def die_with(sweeps: Sweeps, drivers: int, **changes: Any) -> None:
    """Have so many drivers, one after the other, begin every row of the sweep and die."""
    with open_store(STORE) as store:
        keys = sweeps.session(**changes).compile("trial", store).where
        for number in range(1, drivers + 1):
            store.submit_attempts(
                AttemptRow(run_key=key, attempt=number, run_id=f"run-{number}", started=float(number)) for key in keys
            ).result()


def test_attempts_of_drivers_that_died_count_and_a_row_without_any_left_fails_unstarted(sweeps: Sweeps) -> None:
    die_with(sweeps, 2, variants=[1], folds=1)
    outcome = sweeps.run(variants=[1], folds=1)
    assert len(outcome.failed) == 6 and sweeps.executed() == []
    assert {(row.attempt, row.run_id) for row in sweeps.rows()} == {(2, sweeps.project.runs()[-1].name)}
    assert all("used by drivers that died" in reason for reason in outcome.failed.values())
    assert sweeps.run(variants=[1], folds=1).complete, "who starts it after that gives it new attempts"
    assert {row.attempt for row in sweeps.rows()} == {3}


def test_what_another_driver_computes_now_is_not_written_as_failed(sweeps: Sweeps) -> None:
    """The same sweep was started twice at once: the attempts of the other one have no end because it is at them."""
    die_with(sweeps, 1, variants=[1], folds=1)
    with open_store(STORE) as store:
        store.work_leases("run-1").take()
        outcome = sweeps.run(variants=[1], folds=1, retry={"times": 0})
        assert outcome.complete and {row.attempt for row in sweeps.rows()} == {2}


def test_attempts_without_an_end_count_unless_their_run_lives(sweeps: Sweeps) -> None:
    die_with(sweeps, 3, variants=[1], folds=1)
    with open_store(STORE) as store:
        keys = sweeps.session(variants=[1], folds=1).compile("trial", store).where
        lives = ((), ("run-1",), ("run-1", "run-3"), ("run-1", "run-2", "run-3"))
        charged = [AttemptLedger(store, "run-4", keys, {}, living).charged(keys) for living in lives]
    assert charged == [3, 2, 1, 0]


def test_an_attempt_that_died_with_its_driver_leaves_one_less(sweeps: Sweeps) -> None:
    sweeps.rewrite('    note(f"fitted', f"    note('tried'); {DIE}('killed by another', 'gone'); note(f\"fitted")
    die_with(sweeps, 1, variants=[1], assets=["A"], folds=1)
    outcome = sweeps.run(variants=[1], assets=["A"], folds=1)
    assert len(outcome.failed) == 2 and sweeps.executed().count("tried") == 1
    assert {row.attempt for row in sweeps.rows()} == {2}


def test_an_attempt_is_in_the_store_before_its_worker_has_it_and_its_end_after(sweeps: Sweeps) -> None:
    look = f"""
    import sqlite3
    [(n,)] = sqlite3.connect(".scalable/results.db").execute("SELECT count(*) FROM scalable_attempts")
    note(f"noted {{n}}")
    if n == 2:
        {DIE}("crashed", "")
    note(f"fitted"""
    sweeps.rewrite('    note(f"fitted', look.removeprefix("\n"))
    assert sweeps.run(variants=[1], assets=["A"], folds=1).complete
    assert [line for line in sweeps.executed() if "noted" in line] == ["noted 2", "noted 4"]
    with open_store(STORE) as store:
        for attempts in store.attempts(row.run_key for row in sweeps.rows()).values():
            assert [(one.attempt, one.cause) for one in attempts] == [(1, "crashed"), (2, None)]


def test_a_sweep_that_is_stopped_by_us_costs_no_attempt(sweeps: Sweeps) -> None:
    sweeps.rewrite('    note(f"fitted', '    import time; time.sleep(60); note(f"fitted')
    session = sweeps.session()
    with session.open_store() as store:
        plan = session.plan_sweep("trial")
        compiled = session.compile("trial", store)
        with session.opened(plan) as driver:
            execution = SweepExecution(driver, compiled, store, requested(session, "trial", plan), {})

            async def interrupted() -> None:
                running = asyncio.ensure_future(execution.run())
                await soon(sweeps.executed)
                running.cancel()
                await asyncio.wait({running})

            driver.cluster.sync(interrupted)
        attempts = [one for found in store.attempts(compiled.where).values() for one in found]
        assert attempts and {one.cause for one in attempts} == {"stopped"}
        assert AttemptLedger(store, "run-2", compiled.where, {}).charged(compiled.where) == 0


def test_a_sweep_retries_as_it_says_itself_and_else_as_the_policies_say(sweeps: Sweeps) -> None:
    sweeps.rewrite('    note(f"fitted', f"    note('tried'); {DIE}('killed by another', 'gone'); note(f\"fitted")
    sweeps.run(variants=[1], assets=["A"], folds=1, retry={"times": 3})
    assert sweeps.executed().count("tried") == 4
    assert {row.attempt for row in sweeps.rows()} == {4}


def test_a_run_whose_driver_is_gone_is_closed_as_lost_by_the_next_and_that_of_a_living_one_is_not(
    sweeps: Sweeps,
) -> None:
    with open_store(STORE) as store:
        store.put_run(SweepRun(id="run-1 trial", sweep="trial", started=1.0, expected=24))
        living, dead = (
            store.leases(3600).ask("trial", SweepKind.FREE.value, holder)
            for holder in ("another-host:1", f"{socket.gethostname()}:{2**30}")
        )
        for ticket in (living, dead):
            ticket.try_take(lambda holders, before: "")

        def first() -> SweepRun:
            return store.runs("trial")[0]

        sweeps.session().run_sweep("trial", asset="A")
        assert first().status is SweepStatus.RUNNING
        living.release()
        sweeps.session().run_sweep("trial", asset="BB")
        assert (first().status, first().reason) == (SweepStatus.LOST, "its driver is gone") and first().ended
        store.put_run(SweepRun(id="run-2 trial", sweep="trial", started=time.time() + 5, expected=24))
        sweeps.session().run_sweep("trial", asset="CCC", holder="tasks of one run")
        assert [run.status for run in store.runs("trial")][-1] is SweepStatus.RUNNING, "another task of the same holder"


class Full:
    """A store that has no room for rows, or for attempts, until it is told."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch, what: str = "submit") -> None:
        self.room = False
        self.tries = 0
        submit = getattr(store, what)

        def refuse(rows: Iterable[Any]) -> Future[Receipt]:
            rows = list(rows)
            if self.room:
                written: Future[Receipt] = submit(rows)
                return written
            self.tries += 1
            refused: Future[Receipt] = Future()
            refused.set_result(Receipt(Fate.REFUSED, len(rows), "the disk is full"))
            return refused

        monkeypatch.setattr(store, what, refuse)


def computing(sweeps: Sweeps, full: Callable[[Store], Full], act: Callable[[Driver, Full], Any]) -> SweepOutcome:
    """Run the sweep on a full store; what ``act`` is told to do is done after a virtual minute."""
    session = sweeps.session()
    with session.open_store() as store:
        plan = session.plan_sweep("trial")
        compiled, request = session.compile("trial", store), requested(session, "trial", plan)
        trouble = full(store)
        with session.opened(plan) as driver:
            execution = SweepExecution(driver, compiled, store, request, {})

            async def later() -> SweepOutcome:
                asyncio.get_running_loop().call_later(60, act, driver, trouble)
                return await execution.run()

            found: SweepOutcome = driver.cluster.sync(later)
    return found


@pytest.mark.parametrize(
    ("what", "rows", "told"),
    [
        ("submit", 8, "8 computed rows only in this process's memory, do not stop it"),  # of those that had begun
        ("submit_attempts", 0, "nothing is computed that it could not keep"),
    ],
)
def test_a_store_without_room_is_waited_for_and_nothing_is_started_meanwhile(
    sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch, what: str, rows: int, told: str
) -> None:
    seen: list[tuple[str, list[str]]] = []

    def make_room(driver: Driver, full: Full) -> None:
        seen.append((driver.engine.view.paused, sweeps.executed()))
        assert full.tries > 30
        full.room = True

    outcome = computing(sweeps, lambda store: Full(store, monkeypatch, what), make_room)
    [(paused, executed)] = seen
    assert paused == f"nothing more is started: {told}; the disk is full"
    assert len([line for line in executed if line.startswith("fitted")]) == rows / 2
    assert outcome.complete and outcome.computed == 24 and len(sweeps.rows()) == 24
    [finding, *_] = sweeps.project.journal("finding")
    assert finding["code"] == "store-behind" and sweeps.project.journal("finding-over")


def test_a_store_that_has_no_room_for_long_ends_the_sweep_with_the_truth(
    sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match=r"computed rows of trial could not be stored: the disk is full; make room"):
        computing(sweeps, lambda store: Full(store, monkeypatch), lambda driver, full: None)
    assert sweeps.rows() == []
    with open_store(STORE) as store:
        assert [run.status for run in store.runs()] == [SweepStatus.FAILED]


def test_an_operators_pause_and_a_lost_place_do_not_undo_each_other(project: Project) -> None:
    session = project.session()
    with session:
        driver = session.live()
        paused = driver.engine.view

        async def halted() -> list[str]:
            found = []
            for who, wanted in (("operator", "ann"), (SLOT, "lost"), (SLOT, ""), (SLOT, "lost"), ("operator", "")):
                driver.halt(who, Paused(wanted) if wanted else None)
                found.append(paused.paused)
            driver.place_told("")
            return [*found, paused.paused]

        assert driver.cluster.sync(halted) == ["ann", "ann; lost", "ann", "ann; lost", "lost", ""]


def test_a_unit_that_runs_out_of_memory_goes_on_on_a_larger_profile_nobody_planned(project: Project) -> None:
    code = """
    import pathlib

    def score(depth, asset, fold):
        once = pathlib.Path("tried")
        if not once.exists():
            once.touch()
            raise MemoryError("too little")
        return {"score": 1.0}
    """
    sweep = {"factor": "depth", "variants": [1], "assets": ["A"], "folds": 1, "run": f"{project.module(code)}:score"}
    sizes = {"small": "256MiB", "large": "512MiB"}
    profiles = {name: {one: {"cpu": 1, "memory": size} for one in ("request", "limit")} for name, size in sizes.items()}
    session = project.session(
        components={}, sweeps={"mine": {**sweep, "profile": "small"}}, profiles=profiles, target={"processes": True},
        policies=AT_ONCE,
    )  # fmt: skip
    assert session.run_sweep("mine").complete
    with open_store("sqlite:///.scalable/results.db") as store:
        [row] = store.rows(Filter(sweep="mine"))
    assert str(row.worker).startswith("large-")


def test_a_sweep_that_waited_for_its_place_runs_on_what_is_locked_then(project: Project) -> None:
    module = project.module("def score(depth, asset, fold, weight=1.0):\n    return {'score': depth * weight}\n")
    sweep = {"factor": "depth", "variants": [1], "assets": ["A"], "folds": 1, "run": f"{module}:score"}
    session = project.session(components={}, sweeps={"mine": sweep}, target={"processes": True})
    told: list[str] = []
    with open_store("sqlite:///.scalable/results.db") as store:
        other = store.leases().ask("other", SweepKind.HEAVY.value)
        other.try_take(lambda holders, before: "")

        def tell(why: str) -> None:
            told.append(why)
            store.set_config({"weight": 5.0}, factor="weight", variant=5.0, reason="better", expect_version=0)
            other.release()

        assert session.run_sweep("mine", tell=tell).complete
        assert len(told) == 1 and "other" in told[0]
        assert [row.metrics["score"] for row in store.rows(Filter(sweep="mine"))] == [5.0]


def test_a_stage_that_computes_for_long_without_a_word_is_not_stuck(project: Project) -> None:
    code = """
    from scalable.sweeps.stages import stage
    from tests.helpers.session.virtual_workers import compute

    @stage(reads=("depth",))
    def score(*, depth):
        compute(2.5)
        return {"score": 1.0}
    """
    sweep = {"factor": "depth", "variants": [1], "assets": ["A"], "folds": 1, "run": f"{project.module(code)}:score"}
    policies = {"stuck": {"after": "1s"}}
    session = project.session(components={}, sweeps={"mine": sweep}, target={"processes": True}, policies=policies)
    assert session.run_sweep("mine").complete
    assert [record["outcome"] for record in project.journal("attempt-ended")] == ["finished"]


def test_a_store_that_does_not_answer_holds_up_nothing_when_a_sweep_is_interrupted(
    sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, answered = threading.Event(), list[bool]()
    session = sweeps.session()
    with session.open_store() as store:
        put_run = store.put_run

        def slow(run: SweepRun) -> Receipt:
            if run.status is SweepStatus.INTERRUPTED:
                answered.append(answers.wait(LONG_S))
            return put_run(run)

        monkeypatch.setattr(store, "put_run", slow)
        plan = session.plan_sweep("trial")
        with session.opened(plan) as driver:
            request = requested(session, "trial", plan)
            execution = SweepExecution(driver, session.compile("trial", store), store, request, {})

            async def interrupted() -> None:
                running = asyncio.ensure_future(execution.run())
                await soon(sweeps.executed)
                running.cancel()
                await asyncio.wait({running})

            driver.cluster.sync(interrupted)
        answers.set()
        assert until(lambda: [run.status for run in store.runs()] == [SweepStatus.INTERRUPTED])
    assert answered == [True]
