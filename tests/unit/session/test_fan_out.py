"""Tasks over axes in a session: a job for each combination, results by axis, files, and what is computed again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scalable import ScalableSession
from scalable.session.driver.tasks import TaskError
from scalable.store import open_store
from tests.helpers.session.builders import Project

pytestmark = pytest.mark.usefixtures("world")

CODE = """
    from pathlib import Path

    def note(what):
        with open("calls.txt", "a") as file:
            file.write(what + chr(10))

    def simulate(scenario, year, growth=1):
        note(f"simulate {scenario} {year}")
        if Path(f"broken-{scenario}-{year}").exists():
            raise ValueError(f"no weather for {year}")
        return year * growth + (scenario == "high")

    def total(scenario, simulate):
        return [scenario, sum(simulate.values())]

    def table(total):
        return list(total.values())

    def write(scenario, year, map):
        note(f"write {scenario} {year}")
        Path(map).write_text(Path("base.txt").read_text() + f" {scenario} {year}")

    def read(scenario, write):
        note(f"read {scenario}")
        return {year: Path(path).read_text() for year, path in write.items()}

    def forgets(scenario, map):
        return None

    def square(number):
        return number * number
"""
AXES = {"scenario": ["low", "high"], "year": "1..3"}


def session_of(project: Project, **tasks: dict[str, Any]) -> ScalableSession:
    code = project.module(CODE)
    written = {
        name: {"component": "demeter", "run": f"{code}:{more.pop('f', name)}", **more} for name, more in tasks.items()
    }
    return project.session(tasks=written, target={"max_workers": 2})


def run(session: ScalableSession) -> dict[str, Any]:
    with session:
        return session.run_tasks()


def calls(project: Project) -> list[str]:
    """What was called since the last look."""
    file = project.folder / "calls.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return sorted(lines)


def averages(project: Project) -> ScalableSession:
    return session_of(
        project,
        simulate={"over": AXES, "arguments": {"growth": 10}},
        total={"over": {"scenario": ["low", "high"]}, "needs": ["simulate"]},
        table={"needs": ["total"]},
    )


def test_each_combination_is_a_job_and_results_go_by_axis(project: Project) -> None:
    results = run(averages(project))
    assert results["simulate"] == {"low": {1: 10, 2: 20, 3: 30}, "high": {1: 11, 2: 21, 3: 31}}
    assert results["total"] == {"low": ["low", 60], "high": ["high", 63]}
    assert results["table"] == [["low", 60], ["high", 63]]
    jobs = {record["run"] for record in project.journal("run-ended")}
    assert len(jobs) == 9 and "simulate[scenario=high,year=2]" in jobs
    [over, _] = project.journal("fan-out")
    assert (over["task"], over["jobs"], over["axes"]["year"]) == ("simulate", 6, [1, 2, 3])
    with open_store("sqlite:///.scalable/results.db") as store:
        assert {row.name: row.value for row in store.rows()}["simulate[scenario=high,year=2]"] == 21


def test_a_second_run_computes_nothing_and_says_so(project: Project) -> None:
    session = averages(project)
    first = run(session)
    assert len(calls(project)) == 6
    assert run(session) == first
    assert calls(project) == []
    ends = project.journal("attempt-ended")
    assert sum(record.get("recalled", False) for record in ends) == 8
    report = json.loads((project.runs()[-1] / "report.json").read_text())
    assert report["fan_outs"]["simulate"]["recalled"] == 6
    assert report["tasks"]["demeter"]["recalled"] == 8


def test_failed_coordinates_are_named_and_only_they_are_computed_again(project: Project) -> None:
    session = averages(project)
    broken = project.folder / "broken-high-2"
    broken.touch()
    with pytest.raises(TaskError) as error:
        run(session)
    text = str(error.value)
    assert text.startswith("3 of 9 tasks did not finish:")
    assert "simulate[scenario=high,year=2]: failed: raised: ValueError: no weather for 2" in text
    assert "total[scenario=high]: not started: simulate[scenario=high,year=2] did not finish" in text
    assert "table: not started: total[scenario=high] did not finish" in text
    report = json.loads((project.runs()[-1] / "report.json").read_text())
    assert report["fan_outs"]["simulate"]["failed_at"] == ["scenario=high,year=2"]
    calls(project)
    broken.unlink()
    assert run(session)["table"] == [["low", 60], ["high", 63]]
    assert calls(project) == ["simulate high 2"]


def test_outputs_are_files_of_the_project_and_are_given_by_name(project: Project) -> None:
    (project.folder / "base.txt").write_text("v1")
    session = session_of(
        project,
        write={"over": AXES, "outputs": {"map": "out/{scenario}/{year:02d}.txt"}},
        read={"over": {"scenario": ["low", "high"]}, "needs": ["write"]},
    )
    results = run(session)
    assert results["read"]["high"][2] == "v1 high 2"
    assert results["write"]["low"][3] == str(project.folder / "out/low/03.txt")
    assert len(list((project.folder / "out").rglob("*.txt"))) == 6
    calls(project)

    (project.folder / "out/low/01.txt").unlink()
    (project.folder / "out/high/02.txt").write_text("somebody edited it")
    (project.folder / "base.txt").write_text("v2")
    results = run(session)
    assert calls(project) == ["read high", "read low", "write high 2", "write low 1"]
    assert results["read"] == {
        "low": {1: "v2 low 1", 2: "v1 low 2", 3: "v1 low 3"}, "high": {1: "v1 high 1", 2: "v2 high 2", 3: "v1 high 3"}
    }  # fmt: skip
    run(session)
    assert calls(project) == []


def test_an_output_that_is_not_there_fails_its_own_coordinates(project: Project) -> None:
    session = session_of(project, forgets={"over": {"scenario": ["low"]}, "outputs": {"map": "out/{scenario}.txt"}})
    with pytest.raises(TaskError, match=r"forgets\[scenario=low\]: .*its output 'map' is no file: .*out/low\.txt"):
        run(session)


def test_a_task_may_be_run_twice_in_a_session_and_without_its_cache(project: Project) -> None:
    session = session_of(project, simulate={"over": AXES, "cache": False})
    with session:
        assert session.run_tasks() == session.run_tasks()
    assert len(calls(project)) == 12
    assert [record["number"] for record in project.journal("fan-out")] == [0, 1]
    assert "simulate[scenario=low,year=1]#2" in {record["run"] for record in project.journal("run-ended")}


def test_hundreds_of_combinations_are_as_many_jobs(project: Project) -> None:
    session = session_of(project, square={"over": {"number": 200}, "cache": False})
    results = run(session)["square"]
    assert len(results) == 200 and results[199] == 199**2
    assert len({record["run"] for record in project.journal("run-ended")}) == 200
