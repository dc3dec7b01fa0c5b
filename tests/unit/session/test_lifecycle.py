"""Opening and closing: once, twice, at once, from anywhere, in any mood, and nothing stays behind."""

from __future__ import annotations

import json
import os

import pytest

from scalable.cluster.base import LaunchRefused
from scalable.errors import UsageError
from scalable.testing.providers import footprint
from tests.helpers.session.builders import Project, here, nap
from tests.helpers.session.virtual import World
from tests.helpers.waiting import LONG_S, until

pytestmark = pytest.mark.usefixtures("world")


def test_a_run_is_recorded_from_its_start_to_its_end(project: Project) -> None:
    session = project.session(target={"max_workers": 2, "cpu_price": "1 EUR/h"}, components={"demeter": {"cpus": 2}})
    with session as client:
        client.gather(client.map(nap, [0.05] * 6, range(6), tag="demeter"))
        [run] = project.runs()
        facts = json.loads((run / "run.json").read_text())
        assert facts["pid"] == os.getpid()
        assert session.cluster is not None
        assert facts["scheduler"] == session.cluster.metadata["scheduler"]
        assert "certificates" not in facts, "this cluster has none on this machine"
    kinds = [record["kind"] for record in project.journal()]
    assert kinds[:2] == ["run-started", "plan"]
    assert kinds[-1] == "ended"
    assert project.ended() == ("ok", "")
    started, [plan] = project.journal("run-started")[0], project.journal("plan")
    assert (started["project"], started["target"], started["provider"]) == ("proof", "here", "local")
    assert started["run_id"] == run.name
    assert started["manifest"] == str(project.folder / "scalable.yaml")
    assert plan["workers_by_tag"] == {"demeter": 2}
    assert plan["resources_by_tag"]["demeter"]["cpus"] == 2
    tasks = project.journal("task")
    assert len(tasks) == 6
    assert all(task["status"] == "finished" and task["tag"] == "demeter" for task in tasks)
    assert all(0.05 <= task["stop"] - task["start"] < LONG_S for task in tasks)
    assert {task["worker"] for task in tasks} <= {"demeter-0", "demeter-1"}
    assert [(r["direction"], r["tag"], r["count"]) for r in project.journal("scale")] == [("up", "demeter", 2)]
    assert {record["reason"] for record in project.journal("worker-removed")} == {"session closed"}
    costs = [record["per_hour"] for record in project.journal("cost")]
    assert {"amount": 4.0, "currency": "EUR"} in costs and costs[-1] == {"amount": 0.0, "currency": "EUR"}
    report = json.loads((run / "report.json").read_text())
    assert report["run"]["state"] == "ok"
    assert report["workers"]["demeter"] | {"started": 2, "removed": 0, "final": 2} == report["workers"]["demeter"]
    assert report["tasks"]["demeter"]["count"] == 6
    assert report["cost"]["amount"] > 0
    assert report["plan_vs_actual"]["workers"]["demeter"] == {"planned": 2, "actual": 2}


def test_the_next_plan_knows_how_long_tasks_took(project: Project) -> None:
    session = project.session(target={"max_workers": 2})
    assert session.plan().to_dict()["wall_s"] is None
    with session as client:
        client.gather(client.map(nap, [0.2] * 8, range(8), tag="demeter"))
    plan = session.plan()
    assert plan.to_dict()["wall_s"] == pytest.approx(0.8, rel=0.5)
    with session:
        pass
    assert project.journal("plan")[0]["wall_s"] == plan.to_dict()["wall_s"]


def test_failed_tasks_are_recorded_with_their_error(project: Project) -> None:
    def wrong(text: str) -> None:
        raise ValueError(text)

    with project.session() as client:
        future = client.submit(wrong, "no such scenario", tag="demeter")
        assert isinstance(future.exception(), ValueError)
    [task] = project.journal("task")
    assert (task["status"], task["key"]) == ("failed", future.key)
    assert "no such scenario" in task["error"]


def test_starting_twice_gives_the_same_client(project: Project) -> None:
    session = project.session()
    assert session.start() is session.start()
    session.close()
    assert len(project.runs()) == 1


def test_closing_twice_or_before_the_start_changes_nothing(project: Project) -> None:
    session = project.session()
    session.close()
    session.start()
    session.close()
    session.close("failed", "too late")
    assert project.ended() == ("ok", "")


def test_a_session_can_be_used_again_after_it_was_closed(project: Project) -> None:
    session = project.session()
    for number in range(2):
        with session as client:
            assert client.submit(here, number, tag="demeter").result() == "demeter-0"
    assert len(project.runs()) == 2


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (ValueError("no such year"), ("failed", "ValueError: no such year")),
        (KeyboardInterrupt(), ("interrupted", "KeyboardInterrupt")),
        (SystemExit(0), ("ok", "")),
        (SystemExit(3), ("failed", "SystemExit: 3")),
    ],
)
def test_whatever_ends_the_block_is_recorded_and_goes_on(
    project: Project, error: BaseException, ended: tuple[str, str]
) -> None:
    before = footprint()
    with pytest.raises(type(error)) as seen, project.session() as client:
        client.submit(here, tag="demeter").result()
        raise error
    assert seen.value is error
    assert project.ended() == ended
    assert until(lambda: not footprint() - before)


def test_a_spoilt_history_costs_a_warning_and_not_the_run(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    with project.session() as client:
        (project.folder / ".scalable" / "history.json").write_text("[not a history")
        assert client.submit(here, tag="demeter").result()
    assert project.ended() == ("ok", "")
    assert "this run is not learned" in caplog.text


@pytest.mark.parametrize("dies", [False, True], ids=["refused", "dies before it joins"])
def test_a_session_whose_workers_cannot_start_says_why_and_can_be_started_again(
    project: Project, world: World, dies: bool
) -> None:
    session = project.session(target={"max_workers": 2})
    world.refuse = lambda name: "" if dies else "there is no licence for demeter"
    world.die_at_start = lambda name: "there is no licence for demeter"
    with pytest.raises(LaunchRefused, match="there is no licence for demeter"):
        session.start()
    assert project.ended()[0] == "failed"
    assert "there is no licence for demeter" in project.ended()[1]
    with pytest.raises(UsageError, match="not running"):
        session.live()
    world.refuse = world.die_at_start = lambda name: ""
    with session as client:
        assert client.submit(here, tag="demeter").result()
    assert len(project.runs()) == 2
