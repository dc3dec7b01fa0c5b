"""What a finished run leaves for later plans, also when several end at the same time or the file is not what it was."""

from __future__ import annotations

import fcntl
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.errors import ScalableError
from scalable.observe import RunView, learn
from scalable.observe.fields import month
from scalable.observe.history import forget_peaks
from scalable.planning.history import Circumstances, History
from scalable.quantities import Memory
from tests.helpers.observe.builders import (
    GIB,
    Record,
    a_plan,
    attempt_ended,
    joined,
    lost,
    peaks,
    record,
    removed,
    run_started,
    summed,
    sweep_started,
    task,
    unit,
)
from tests.helpers.observe.history import understood, written

APRIL, MAY = 0.0, 31 * 86400.0  # seconds after the builders' start


def a_summary(name: str, *records: Record) -> RunView:
    return summed(run_started(name), *records)


def paid(amount: float, currency: str = "EUR", at: float = APRIL) -> Record:
    return record("cost", at, spent={"amount": amount, "currency": currency})


def test_a_run_leaves_durations_peaks_counts_and_a_session(tmp_path: Path) -> None:
    told = a_summary(
        "run-1",
        joined("w1", took_s=42),
        joined("w2", took_s=7),
        task("a", 10, 2),
        task("b", 10, 4, worker="w2"),
        task("c", 10, 9, ok=False),
        task("d", 10, 1, tag="stitches"),
        peaks(a=3 * GIB),
        attempt_ended("r1", "out of memory"),
        attempt_ended("r2", "out of memory", raised=True),
        removed("w2", 60),
    )
    assert learn(tmp_path, told)
    history = understood(tmp_path)
    assert history.seconds == {"tag:demeter": (2.0, 4.0), "tag:stitches": (1.0,)}
    assert history.peaks["tag:demeter"].bytes == 3 * GIB
    assert history.tasks == {"tag:demeter": 3, "tag:stitches": 1}
    (session,) = history.sessions
    assert (session.oom_kills, session.failures) == (1, 1)
    assert (session.target, session.provider) == ("hpc", "slurm")
    assert (session.scale_up_s, session.scale_down_s) == (42.0, 46.0)


def peak_of(history: History, **circumstances: str) -> Memory | None:
    use = history.used(Circumstances("calibration", **circumstances))
    return use.peak if use is not None else None


def sized(cpus: float = 1.0) -> Record:
    return a_plan(resources_by_tag={"demeter": {"cpus": cpus, "memory": "8GiB"}})


def units(count: int, seconds: float = 4.0, **facts: Any) -> list[Record]:
    return [each for number in range(count) for each in unit(f"u{number}", seconds, **facts)]


def test_a_sweep_leaves_what_its_units_took_and_under_what_circumstances(tmp_path: Path) -> None:
    started = sweep_started(settings={"years": 2, "fast": True})
    learn(tmp_path, a_summary("run-1", sized(), joined("w1"), started, *units(6, 4.0, cpu_s=3.0, peak=GIB)))
    history = understood(tmp_path)
    (found,) = history.units["calibration"]
    assert found.seconds == (4.0,) * 6
    assert (found.cores, found.cpus, found.rows) == (0.75, 1.0, 9)
    assert (found.trials, found.provider, found.run, found.settings) == (30, "slurm", "", "fast=True, years=2")
    assert peak_of(history, settings="fast=True, years=2") == Memory(GIB)
    assert not [name for name in history.peaks if name.startswith("run:")], "units are not tasks"


def test_what_a_worker_takes_once_to_load_code_is_kept_apart_from_what_units_take(tmp_path: Path) -> None:
    def a_sweep(name: str, *firsts: float) -> None:
        loading = [unit(f"{name}{at}", 4.0 + load, worker=f"w{at}", load_s=load) for at, load in enumerate(firsts)]
        again = unit("again", 5.0, worker="w0", load_s=1.0)  # another process: part of what its unit takes
        rest = [unit(f"{name}-{number}", 4.0, worker="w0") for number in range(5)]
        records = [each for records in (*loading, again, *rest) for each in records]
        learn(tmp_path, a_summary(name, sized(), joined("w1"), sweep_started(), *records))

    a_sweep("run-1", 2.0, 3.0)
    (measured,) = understood(tmp_path).units["calibration"]
    assert sorted(measured.seconds) == [*[4.0] * 7, 5.0]
    assert measured.load_s == 2.5
    a_sweep("run-2", 0.0, 0.0)  # an earlier sweep of the session has loaded the code
    assert understood(tmp_path).units["calibration"][0].load_s == 2.5


def test_only_first_attempts_that_computed_their_search_and_failed_in_nothing_say_how_long_one_takes(
    tmp_path: Path,
) -> None:
    lost_before = attempt_ended("b", "worker lost", at=20, seconds=99.0)
    told = a_summary(
        "run-1",
        sized(),
        sweep_started(),
        *unit("a", 4.0),
        lost_before,
        *unit("b", 1.0, number=2),
        *unit("c", 0.1, fresh=False),
        *unit("d", 2.0, failed=1),
        attempt_ended("e", at=40, seconds=7.0),
    )
    learn(tmp_path, told)
    (found,) = understood(tmp_path).units["calibration"]
    assert found.seconds == (4.0,)


def test_the_peak_of_an_attempt_that_died_of_it_counts(tmp_path: Path) -> None:
    died = attempt_ended("a", "out of memory", at=20, seconds=9.0, peak=8 * GIB)
    learn(tmp_path, a_summary("run-1", sized(), sweep_started(), died, *unit("a", number=2, peak=6 * GIB)))
    assert peak_of(understood(tmp_path)) == Memory(8 * GIB)


def test_a_peak_belongs_to_the_base_and_to_the_code_that_had_it(tmp_path: Path) -> None:
    def measured(number: int, peak: int, **started: Any) -> None:
        learn(tmp_path, a_summary(f"run-{number}", sized(), sweep_started(**started), *unit("a", peak=peak)))

    measured(1, 5 * GIB, code="leaks", reads=["cleanlab"])
    measured(2, 4 * GIB, code="leaks", base={"cleanlab": "prune"})
    measured(3, 3 * GIB, code="leaks")
    assert peak_of(understood(tmp_path)) == Memory(5 * GIB), "the same code may use as much again"
    measured(4, GIB, code="fixed")
    history = understood(tmp_path)
    assert peak_of(history) == Memory(GIB)
    assert peak_of(history, base="cleanlab=prune") == Memory(4 * GIB)
    use = history.used(Circumstances("calibration"))
    assert use is not None
    assert (use.code, use.target) == ("fixed", "hpc")
    assert history.reads == {"": frozenset({"cleanlab"})}


def test_what_earlier_versions_kept_of_a_peak_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text(json.dumps({"peaks": {"calibration": "9GiB", "tag:demeter": "1GiB"}}))
    learn(tmp_path, a_summary("run-1", sized(), sweep_started(code="new"), *unit("a", peak=GIB)))
    assert peak_of(understood(tmp_path)) == Memory(GIB)
    assert "calibration" not in written(tmp_path)["peaks"]


def test_where_a_unit_ran_out_of_memory_is_kept(tmp_path: Path) -> None:
    died = attempt_ended("a", "out of memory", at=20, tag="standard", seconds=9.0)
    learn(tmp_path, a_summary("run-1", sized(), sweep_started(), died, *unit("a", number=2)))
    use = understood(tmp_path).used(Circumstances("calibration"))
    assert use is not None
    assert (use.peak, use.short) == (None, frozenset({"standard"}))


def test_sizes_of_training_sets_are_kept_beside_the_peaks_by_workload(tmp_path: Path) -> None:
    def sized_note(run: str, samples: int, features: int) -> Record:
        return record("note", 15, run=run, event="training-set", samples=samples, features=features)

    told = a_summary(
        "run-1", sized(), sweep_started(),
        sized_note("a", 1000, 80), sized_note("a", 2000, 80), sized_note("a", 10, 80), *unit("a", peak=GIB),
        sized_note("b", 500, 80), *unit("b", peak=GIB, fresh=False),
        sized_note("c", 500, 80), *unit("c"),
    )  # fmt: skip
    learn(tmp_path, told)
    assert understood(tmp_path).sizes == {"": ((2000, 80, GIB),)}


def test_a_sweep_run_again_with_other_code_in_the_same_session_is_measured_anew(tmp_path: Path) -> None:
    first, again = sweep_started(code="leaks"), sweep_started(at=40, code="fixed")
    told = a_summary("run-1", sized(), first, *unit("a", peak=9 * GIB), again, *unit("b", at=50, peak=GIB))
    learn(tmp_path, told)
    assert peak_of(understood(tmp_path)) == Memory(GIB)


@pytest.mark.parametrize(
    ("meant", "left"),
    [
        ({"name": "calibration", "run": "", "settings": ""}, {"timeframe", "calibration years=9", "tag:demeter"}),
        ({"name": "calibration"}, {"timeframe", "tag:demeter"}),
        ({"name": "timeframe"}, {"calibration", "calibration years=9", "tag:demeter"}),
        ({"name": "demeter"}, {"calibration", "timeframe", "calibration years=9"}),
        ({}, set()),
    ],
    ids=["as-it-is", "whatever-settings", "another-factor", "component", "all"],
)
def test_peaks_are_forgotten_and_told(tmp_path: Path, meant: dict[str, str], left: set[str]) -> None:
    (tmp_path / "history.json").write_text(
        json.dumps({"peaks": {"calibration years=9": "9GiB", "tag:demeter": "1GiB"}})
    )
    for name in ("calibration", "timeframe"):
        learn(tmp_path, a_summary(name, sized(), sweep_started(name), *unit("a", sweep=name, peak=GIB)))
    gone = forget_peaks(tmp_path, **meant)
    history = written(tmp_path)
    assert {*history["peaks"], *(factor for factor, entries in history["memory"].items() if entries)} == left
    assert len(gone) == 4 - len(left)
    assert forget_peaks(tmp_path, **meant) == []


def test_the_peak_of_another_workload_or_of_other_settings_says_nothing_about_a_sweep(tmp_path: Path) -> None:
    peaks_of = {"": GIB, "other:work": 90 * GIB}
    for number, (run, peak) in enumerate(peaks_of.items()):
        told = a_summary(f"run-{number}", sized(), sweep_started(run=run), *unit("a", peak=peak))
        learn(tmp_path, told)
    learn(tmp_path, a_summary("run-2", sized(), sweep_started(settings={"years": 9}), *unit("a", peak=50 * GIB)))
    history = understood(tmp_path)
    assert {run: peak_of(history, run=run) for run in peaks_of} == {run: Memory(peak) for run, peak in peaks_of.items()}
    assert peak_of(history, settings="years=9") == Memory(50 * GIB)


def test_a_sweep_replaces_what_earlier_ones_measured_unless_it_measured_little(tmp_path: Path) -> None:
    learn(tmp_path, a_summary("run-1", sized(), sweep_started(), *units(8, 4.0)))
    learn(tmp_path, a_summary("run-2", sized(), sweep_started(), *units(2, 6.0)))
    assert understood(tmp_path).units["calibration"][0].seconds == (*(4.0,) * 8, *(6.0,) * 2)
    learn(tmp_path, a_summary("run-3", sized(), sweep_started(), *units(5, 5.0)))
    assert understood(tmp_path).units["calibration"][0].seconds == (5.0,) * 5


def test_the_level_of_the_latest_sweeps_is_remembered_and_a_small_one_is_part_of_the_one_before(tmp_path: Path) -> None:
    for number, seconds in enumerate((3.0, 4.0, 5.0, 4.0, 4.5, 3.5)):
        learn(tmp_path, a_summary(f"run-{number}", sized(), sweep_started(), *units(5, seconds)))
    (found,) = understood(tmp_path).units["calibration"]
    assert (found.means, found.usual, found.mean) == ((4.0, 5.0, 4.0, 4.5, 3.5), 4.0, 3.5)
    learn(tmp_path, a_summary("run-few", sized(), sweep_started(), *units(1, 6.5)))
    (found,) = understood(tmp_path).units["calibration"]
    assert found.means == (4.0, 5.0, 4.0, 4.5, 4.0)


def test_a_pilot_counts_with_what_a_job_of_the_whole_sweep_takes_until_a_sweep_has_run(tmp_path: Path) -> None:
    ended = {"kind": "sweep-ended", "t": 90.0, "sweep": "calibration", "status": "finished", "job_s": 3.0}
    learn(tmp_path, a_summary("run-1", sized(), sweep_started(pilot=True), *units(6, 4.0), ended))
    (found,) = understood(tmp_path).units["calibration"]
    assert found.pilot and [found.mean, found.usual] == pytest.approx([3.0, 3.0])
    learn(tmp_path, a_summary("run-2", sized(), sweep_started(), *units(6, 4.0)))
    (found,) = understood(tmp_path).units["calibration"]
    assert (found.pilot, found.means, found.mean) == (False, (4.0,), 4.0)


def test_what_takes_twice_or_half_as_long_is_other_work_and_what_was_before_is_forgotten(tmp_path: Path) -> None:
    for number, seconds in enumerate((4.0, 4.0, 8.1)):
        learn(tmp_path, a_summary(f"run-{number}", sized(), sweep_started(), *units(5, seconds)))
    (found,) = understood(tmp_path).units["calibration"]
    assert found.means == (8.1,)


def test_other_circumstances_are_kept_apart(tmp_path: Path) -> None:
    learn(tmp_path, a_summary("run-1", sized(1), sweep_started(), *units(5)))
    learn(tmp_path, a_summary("run-2", sized(4), sweep_started(), *units(5)))
    learn(tmp_path, a_summary("run-3", sized(1), sweep_started(trials=15), *units(5)))
    learn(tmp_path, a_summary("run-4", sized(1), sweep_started(settings={"years": 1}), *units(5)))
    learn(tmp_path, a_summary("run-5", sized(1), sweep_started(run="m:f"), *units(5)))
    assert len(understood(tmp_path).units["calibration"]) == 5


def test_later_runs_add_to_what_is_known(tmp_path: Path) -> None:
    learn(tmp_path, a_summary("run-1", task("a", 10, 2), task("b", 10, 3), peaks(a=3 * GIB)))
    learn(tmp_path, a_summary("run-2", task("a", 10, 4), peaks(a=2 * GIB)))
    history = understood(tmp_path)
    assert history.seconds == {"tag:demeter": (2.0, 3.0, 4.0)}
    assert history.peaks["tag:demeter"].bytes == 3 * GIB
    assert history.tasks == {"tag:demeter": 1}
    assert len(history.sessions) == 2


def test_a_run_is_learned_once(tmp_path: Path) -> None:
    told = a_summary("run-1", task("a"), paid(1))
    assert learn(tmp_path, told)
    before = written(tmp_path)
    assert not learn(tmp_path, told)
    assert written(tmp_path) == before


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalable.observe.history.MOST_RUNS", 55)
    learn(tmp_path, a_summary("run-0", *(task(f"t{n}", 10, 1 + n) for n in range(1000))))
    assert len(understood(tmp_path).seconds["tag:demeter"]) == 200
    learn(tmp_path, a_summary("run-1", *(task(f"t{n}", 10, 5) for n in range(50))))
    assert understood(tmp_path).seconds["tag:demeter"][-50:] == (5.0,) * 50
    for number in range(2, 60):
        learn(tmp_path, a_summary(f"run-{number}", task("a")))
    assert len(understood(tmp_path).sessions) == 50
    assert written(tmp_path)["runs"][0::54] == ["run-5", "run-59"]


def test_many_durations_are_represented_by_a_sample_of_all_of_them(tmp_path: Path) -> None:
    learn(tmp_path, a_summary("run-0", *(task(f"t{n}", 10, 1 + n % 10) for n in range(1000))))
    durations = understood(tmp_path).seconds["tag:demeter"]
    assert sum(durations) / len(durations) == pytest.approx(5.5, rel=0.02)


def test_money_counts_in_its_month_only(tmp_path: Path) -> None:
    learn(tmp_path, a_summary("run-1", paid(1.5)))
    learn(tmp_path, a_summary("run-2", paid(2)))
    assert str(understood(tmp_path, "2026-04").spent_this_month) == "EUR 3.50"
    assert understood(tmp_path, "2026-05").spent_this_month is None
    assert understood(tmp_path).spent_this_month is None
    learn(tmp_path, a_summary("run-3", paid(1), paid(5, at=MAY)))
    assert str(understood(tmp_path, "2026-05").spent_this_month) == "EUR 4.00"
    learn(tmp_path, a_summary("run-4", paid(9)))
    assert str(understood(tmp_path, "2026-05").spent_this_month) == "EUR 4.00"


@pytest.mark.parametrize("at", [4.2e9, 5e11], ids=["2103", "no-date"])
def test_money_told_by_a_clock_that_was_wrong_is_this_months(at: float, tmp_path: Path) -> None:
    learn(tmp_path, a_summary("run-1", paid(2, at=at)))
    assert str(understood(tmp_path, month(time.time())).spent_this_month) == "EUR 2.00"


def test_a_month_to_come_does_not_hide_what_is_spent_until_then(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text('{"spent_this_month": {"month": "2103-02", "amount": "2 EUR"}}')
    learn(tmp_path, a_summary("run-1", paid(1)))
    assert str(understood(tmp_path, "2026-04").spent_this_month) == "EUR 1.00"


def test_money_without_a_month_from_an_older_file_is_added_to(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text('{"spent_this_month": "2 EUR"}', encoding="utf-8")
    learn(tmp_path, a_summary("run-1", paid(1)))
    assert written(tmp_path)["spent_this_month"] == {"month": "2026-04", "amount": "3 EUR"}


def test_money_of_another_currency_is_not_added_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    learn(tmp_path, a_summary("run-1", paid(1.5)))
    with caplog.at_level(logging.WARNING, logger="scalable"):
        learn(tmp_path, a_summary("run-2", paid(2, "USD")))
    assert str(understood(tmp_path, "2026-04").spent_this_month) == "EUR 1.50"
    assert "USD 2.00 is not added to the EUR 1.50 spent this month" in caplog.text


def test_what_this_version_does_not_know_stays_in_the_file(tmp_path: Path) -> None:
    known = {"seconds": {"calibration": [100.0]}, "peaks": {"calibration": "3 GiB"}, "new": {"x": 1}}
    (tmp_path / "history.json").write_text(json.dumps(known), encoding="utf-8")
    learn(tmp_path, a_summary("run-1", task("a")))
    assert written(tmp_path)["new"] == {"x": 1}
    assert understood(tmp_path).seconds["calibration"] == (100.0,)


@pytest.mark.parametrize(
    "text", ["{", "[]", "null", '{"seconds": []}', '{"units": []}', '{"sessions": {}}', "[" * 100_000, '{"runs": 1}']
)
def test_a_history_that_cannot_be_understood_is_left_alone(text: str, tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text(text, encoding="utf-8")
    with pytest.raises(ScalableError, match=r"history\.json .*move it away, this run is not learned"):
        learn(tmp_path, a_summary("run-1", task("a")))
    assert (tmp_path / "history.json").read_text(encoding="utf-8") == text


def test_clocks_that_were_wrong_do_not_spoil_the_history(tmp_path: Path) -> None:
    told = a_summary("run-1", joined("w1", took_s=1e12), task("a", -1e9, 1e9), task("b", 10, 0), task("c", 10, 3))
    learn(tmp_path, told)
    assert max(understood(tmp_path).seconds["tag:demeter"]) == 3.0


def test_a_lock_that_is_not_given_up_is_said_and_not_waited_for_for_ever(tmp_path: Path) -> None:
    with (tmp_path / "history.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ScalableError, match="is held by another process"):
            learn(tmp_path, a_summary("run-1", task("a")), wait_s=0.1)
    assert learn(tmp_path, a_summary("run-1", task("a")))


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ScalableError, match="this run is not learned"):
        learn(tmp_path / "file", a_summary("run-1"))


def test_a_run_without_tasks_leaves_only_its_session(tmp_path: Path) -> None:
    learn(tmp_path, a_summary("run-1", joined("w1"), lost("w1")))
    history = understood(tmp_path)
    assert (history.seconds, history.tasks, len(history.sessions)) == ({}, {}, 1)


runs = st.lists(
    st.one_of(
        st.builds(task, st.just("a"), st.floats(-1e9, 1e9), st.floats(0, 1e10), st.text(max_size=3), ok=st.booleans()),
        st.builds(peaks, st.text(max_size=3), a=st.integers(-10, 2**60)),
        st.builds(joined, st.just("w1"), took_s=st.floats(-1e9, 1e9)),
        st.builds(removed, st.just("w1"), st.floats(-1e9, 1e9)),
        st.builds(paid, st.floats(0, 1e12)),
        st.builds(sweep_started, at=st.floats(-1e9, 1e9), trials=st.one_of(st.integers(-5, 10**400), st.none())),
        st.builds(lambda cpus: sized(cpus), st.one_of(st.floats(), st.text(max_size=2), st.booleans())),
        st.builds(
            lambda s, c, p: {**unit("a", s, cpu_s=c, peak=p)[0], "seconds": s},
            st.floats(-1e9, 1e12),
            st.floats(),
            st.integers(-10, 2**60),
        ),
        st.just(unit("a")[1]),
    ),
    max_size=10,
)


@given(st.lists(runs, max_size=3))
def test_the_planner_understands_whatever_was_learned(
    tmp_path_factory: pytest.TempPathFactory, all_runs: list[list[Record]]
) -> None:
    base = tmp_path_factory.mktemp("history")
    for number, records in enumerate(all_runs):
        learn(base, a_summary(f"run-{number}", *records))
        understood(base, "2026-04")
