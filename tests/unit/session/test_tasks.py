"""The manifest's tasks: in the order they need, with what they need, and with the truth about what failed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

import pytest

from scalable import ManifestError
from scalable.errors import UsageError
from scalable.session.driver.tasks import TaskError, TaskFolders, as_json, run_tasks
from scalable.store import AttemptRow, Fate, Receipt, Row, open_store
from scalable.store.sql import SqlStore
from tests.helpers.session.builders import Project, here
from tests.helpers.session.tasks import a_session
from tests.helpers.waiting import until

pytestmark = pytest.mark.usefixtures("world")


def test_tasks_that_need_each_other_are_refused_with_the_manifest(project: Project) -> None:
    with pytest.raises(ManifestError, match="need each other"):
        a_session(project, {"a": ("value", {"needs": ["b"]}), "b": ("value", {"needs": ["a"]})})


def test_a_session_that_is_not_running_runs_no_tasks(project: Project) -> None:
    with pytest.raises(UsageError, match="not running"):
        a_session(project, {"a": ("value", {})}).run_tasks()


def test_results_are_told_as_json_where_they_have_such_a_form() -> None:
    np = pytest.importorskip("numpy")
    own: list[Any] = []
    own.append(own)
    assert as_json({"n": np.int64(3), "x": np.float32(0.5), "yes": True, "nan": float("nan"), "at": {1}}) == {
        "n": 3, "x": 0.5, "yes": True, "nan": "nan", "at": "{1}"
    }  # fmt: skip
    assert "[[...]]" in json.dumps(as_json(own))


def run(project: Project, tasks: dict[str, Any], /, **sections: Any) -> dict[str, Any]:
    session = a_session(project, tasks, **sections)
    with session:
        return session.run_tasks()


def failure(project: Project, tasks: dict[str, Any], **sections: Any) -> str:
    with pytest.raises(TaskError) as error:
        run(project, tasks, **sections)
    return str(error.value)


def test_results_come_by_name_and_arguments_are_passed(project: Project) -> None:
    assert run(project, {"one": ("value", {}), "six": ("value", {"arguments": {"number": 2, "plus": 4}})}) == {
        "one": 1,
        "six": 6,
    }


def test_a_task_gets_the_results_of_those_it_needs(project: Project) -> None:
    tasks = {
        "sum": ("add", {"needs": ["first", "second"]}),
        "first": ("value", {"arguments": {"number": 20}}),
        "second": ("value", {"arguments": {"number": 22}}),
    }
    assert run(project, tasks)["sum"] == 42


def test_tasks_that_do_not_need_each_other_run_side_by_side_and_others_after(project: Project) -> None:
    tasks = {
        "a": ("span", {}),
        "b": ("span", {}),
        "after": ("span", {"needs": ["a", "b"], "arguments": {"seconds": 0}}),
    }
    spans = run(project, tasks, target={"max_workers": 2})
    assert max(spans["a"][0], spans["b"][0]) < min(spans["a"][1], spans["b"][1])
    assert spans["after"][0] >= max(spans["a"][1], spans["b"][1])


def test_only_the_named_tasks_and_what_they_need_are_run(project: Project) -> None:
    tasks = {"a": ("value", {}), "b": ("span", {"needs": ["a"]}), "c": ("told", {"arguments": {"text": "no"}})}
    session = a_session(project, tasks)
    with session:
        assert session.run_tasks(["a"]) == {"a": 1}
        assert set(session.run_tasks(["b"])) == {"a", "b"}, "and again in the same session"
    assert [record["state"] for record in project.journal("run-ended")] == ["finished"] * 3


def test_an_unknown_task_is_refused_with_the_known_ones(project: Project) -> None:
    session = a_session(project, {"clean": ("value", {})})
    with session:
        with pytest.raises(UsageError, match=r"task 'claen' is not defined; known: clean; write clean"):
            session.run_tasks(["claen"])
        assert session.run_tasks() == {"clean": 1}


def test_tasks_without_anything_to_run_are_refused_with_what_to_write(project: Project) -> None:
    session = project.session(tasks={"clean": {"component": "demeter"}})
    with session:
        for names in (None, ["clean"]):
            with pytest.raises(UsageError, match=r"run: package\.module:function"):
                session.run_tasks(names)


def test_an_error_is_told_and_not_tried_again_and_others_run_to_their_end(project: Project) -> None:
    tasks = {
        "bad": ("told", {"arguments": {"text": "year 2200 is not in the data"}}),
        "good": ("value", {}),
        "needs bad": ("value", {"needs": ["bad"]}),
    }
    text = failure(project, tasks)
    assert "2 of 3 tasks did not finish" in text
    assert "bad: failed: raised: ValueError: year 2200 is not in the data" in text
    assert "needs bad: not started: bad did not finish" in text
    assert len([r for r in project.journal("attempt-started") if r["run"] == "bad"]) == 1
    assert {r["run"]: r["state"] for r in project.journal("run-ended")} == {"bad": "failed", "good": "finished"}


def test_a_missing_module_or_function_is_told_and_not_tried_again(project: Project) -> None:
    tasks = {
        "a": {"component": "demeter", "run": "no_such_module_anywhere:run"},
        "b": {"component": "demeter", "run": "json:no_such_function"},
    }
    session = project.session(tasks=tasks)
    with session, pytest.raises(TaskError) as error:
        session.run_tasks()
    told = "failed: cannot start: its code cannot be loaded on this worker"
    assert f"a: {told}: ModuleNotFoundError: No module named 'no_such_module_anywhere'" in str(error.value)
    assert f"b: {told}: ImportError: the module json has no function no_such_function" in str(error.value)
    assert len(project.journal("attempt-started")) == 2


def test_an_error_that_may_pass_is_tried_again_after_a_while_and_told(project: Project) -> None:
    note = str(project.folder / "note")
    assert run(project, {"flaky": ("flaky", {"arguments": {"note": note}})}) == {"flaky": "here again"}
    first, second = project.journal("attempt-started")
    [ended, _] = project.journal("attempt-ended")
    assert (ended["outcome"], first["attempt"], second["attempt"]) == ("transient", 1, 2)
    assert second["t"] - ended["t"] >= 0.1
    [retry] = project.journal("retry")
    assert (retry["run"], retry["tag"], retry["cause"]) == ("flaky", "demeter", "transient")
    assert [one["alert"] for one in project.journal("alert") if "state" not in one] == ["retry-used"]


def test_a_task_retries_as_it_says_itself_and_else_as_the_policies_say(project: Project) -> None:
    text = failure(project, {"flaky": ("always_flaky", {"retry": {"times": 2}}), "other": ("always_flaky", {})})
    assert "flaky: failed: transient after 3 attempts" in text and "other: failed: transient after 2 attempts" in text


def test_attempts_at_a_task_by_drivers_that_died_count(project: Project) -> None:
    session = a_session(project, {"count": ("count", {"arguments": {"note": str(project.folder / "calls")}})})
    with session, session.open_store() as store:
        session.run_tasks()
        (first,) = store.rows()
        for number in (2, 3):
            died = AttemptRow(run_key=first.run_key, attempt=number, run_id="run-1", started=1.0)
            store.submit_attempts([died]).result()
        with pytest.raises(TaskError, match="its 2 attempts were used by drivers that died"):
            session.run_tasks()
        (row,) = store.rows()
        assert row.finished and row.attempt == 1, "a failed row never takes the place of a finished one"


def test_results_that_the_store_has_no_room_for_are_kept_until_it_has(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[list[Row]] = []
    submit = SqlStore.submit

    def refuse_at_first(self: SqlStore, rows: Iterable[Row]) -> Future[Receipt]:
        tries.append(list(rows))
        if len(tries) > 5:
            return submit(self, tries[-1])
        refused: Future[Receipt] = Future()
        refused.set_result(Receipt(Fate.REFUSED, 1, "the disk is full"))
        return refused

    monkeypatch.setattr(SqlStore, "submit", refuse_at_first)
    assert run(project, {"one": ("value", {})}) == {"one": 1}
    assert len(tries) == 6
    with open_store("sqlite:///.scalable/results.db") as store:
        assert [row.value for row in store.rows()] == [1]


def test_an_error_that_does_not_pass_is_given_up_after_the_retries(project: Project) -> None:
    text = failure(project, {"flaky": ("always_flaky", {})})
    assert "flaky: failed: transient after 2 attempts: TimeoutError: no answer" in text
    assert len(project.journal("attempt-started")) == 2


def test_outputs_that_are_there_are_fine(project: Project) -> None:
    tasks = {
        "table": ("write", {"arguments": {"name": "table.csv"}, "outputs": {"table": "file"}}),
        "maps": ("folder", {"arguments": {"name": "maps"}, "outputs": {"maps": "dir", "table": "file"}}),
    }
    assert run(project, tasks)["table"] == "table.csv"


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (("value", {"outputs": {"table": "file"}}), "must return the path of its output 'table'; it returned int"),
        (("nothing", {"outputs": {"table": "file"}}), "must return the path of its output 'table'"),
        (("write", {"arguments": {"name": "t"}, "outputs": {"t": "dir"}}), "its output 't' is no folder: t"),
        (
            ("write", {"arguments": {"name": "t"}, "outputs": {"a": "file", "b": "file"}}),
            "must return the path of its output 'a'",
        ),
        (("folder", {"arguments": {"name": "f"}, "outputs": {"maps": "file"}}), "its output 'maps' is no file: f"),
    ],
)
def test_outputs_that_are_not_there_fail_the_task(project: Project, task: Any, reason: str) -> None:
    assert reason in failure(project, {"task": task})


def test_a_cached_task_is_called_once_for_the_same_arguments(project: Project) -> None:
    note = str(project.folder / "note")
    tasks = {
        "cached": ("count", {"cache": True, "arguments": {"note": note}}),
        "plain": ("count", {"arguments": {"note": note + "2"}}),
    }
    session = a_session(project, tasks)
    for _ in range(2):
        with session:
            session.run_tasks()
            results = session.run_tasks()
    assert results == {"cached": 1, "plain": 4}


def test_an_output_of_a_cached_task_that_is_gone_or_changed_is_made_again(project: Project) -> None:
    table = project.folder / "table.csv"
    options = {"cache": True, "arguments": {"name": str(table)}, "outputs": {"table": "file"}}
    session = a_session(project, {"table": ("write", options)})
    with session:
        session.run_tasks()
        made = table.stat().st_mtime_ns
        session.run_tasks()
        assert table.stat().st_mtime_ns == made, "it was there"
        table.unlink()
        session.run_tasks()
        assert table.read_text() == "x"
        table.write_text("edited")
        session.run_tasks()
        assert table.read_text() == "x"
    recalled = [record.get("recalled", False) for record in project.journal("attempt-ended")]
    assert recalled == [False, True, False, False]


def test_results_of_cached_tasks_are_kept_where_the_environment_or_else_the_manifest_says(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, said = project.folder / "written", project.folder / "said"
    cached = {"cached": ("value", {"cache": True})}
    monkeypatch.setenv("SCALABLE_CACHE_DIR", str(said))
    run(project, cached, project={"name": "lab", "local_cache": str(written)})
    assert said.exists()
    assert not written.exists()
    monkeypatch.delenv("SCALABLE_CACHE_DIR")
    run(project, cached, project={"name": "lab", "local_cache": str(written)})
    assert written.exists()


def test_a_value_that_cannot_be_sent_fails_its_task_and_nothing_hangs(project: Project) -> None:
    session = a_session(project, {"lock": ("cannot_be_sent", {}), "other": ("value", {})})
    with session, pytest.raises(TaskError, match=r"1 of 2 .*\n.*cannot pickle"):
        session.run_tasks()


def test_a_result_that_no_store_can_hold_is_stored_in_words_and_ends_no_other_task(project: Project) -> None:
    assert run(project, {"large": ("large", {}), "small": ("value", {})}) == {"large": 2**2000, "small": 1}
    with open_store("sqlite:///.scalable/results.db") as store:
        found = {row.name: row.value for row in store.rows()}
    assert found["small"] == 1 and found["large"].startswith("1148") and found["large"].endswith("…")


def test_results_that_someone_keeps_do_not_keep_tasks_from_running(project: Project) -> None:
    session = a_session(project, {"task": ("value", {})})
    with session as client:
        kept = client.submit(here, tag="demeter")
        kept.result()
        time.sleep(1.2)  # long enough for it to be seen
        assert session.run_tasks() == {"task": 1}
        assert kept.result() == "demeter-0"


def test_tasks_wait_for_workers_with_other_work_and_get_them(project: Project) -> None:
    session = a_session(project, {"task": ("value", {})})
    with session as client:
        other = client.submit(time.sleep, 1.5, tag="demeter")
        time.sleep(0.7)
        assert session.run_tasks() == {"task": 1}
        assert other.done()


def test_the_report_tells_what_the_tasks_did(project: Project) -> None:
    failure(project, {"good": ("span", {}), "bad": ("told", {"arguments": {"text": "no"}})})
    report = json.loads((project.runs()[-1] / "report.json").read_text())
    assert report["tasks"]["demeter"]["count"] == 2
    assert report["tasks"]["demeter"]["failed"] == 1
    assert report["losses"] == {"raised": 1}
    assert report["workers"]["demeter"] | {"most": 1} == report["workers"]["demeter"]


def test_the_store_has_the_latest_of_a_task_that_is_run_again(project: Project) -> None:
    session = a_session(project, {"count": ("count", {"arguments": {"note": str(project.folder / "calls")}})})
    with session, session.open_store() as store:
        for number in range(1, 6):
            assert session.run_tasks() == {"count": number}
            (row,) = store.rows()
            assert (row.value, row.attempt) == (number, number)


def test_tasks_that_nobody_waits_for_any_longer_are_ended(project: Project) -> None:
    """As Ctrl-C in a notebook does it, whose session lives on."""
    session = a_session(project, {"span": ("span", {"arguments": {"seconds": 600}})})
    with session, session.open_store() as store:
        driver = session.live()

        async def interrupted() -> None:
            work = asyncio.ensure_future(run_tasks(driver, session.manifest.tasks, store, {}, TaskFolders()))
            while not driver.attempts.under_way:
                await asyncio.sleep(0.01)
            work.cancel()
            await asyncio.wait({work})

        driver.cluster.sync(interrupted)
        assert until(lambda: not driver.attempts.under_way)
