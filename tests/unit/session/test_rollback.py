"""A bad sizing is rolled back: the plan before holds for later runs, and at once for a session that is live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalable import AdaptiveScaler
from scalable.cli.main import main
from scalable.errors import PlanningError
from scalable.observe.mailbox import WrongQuestionError, ask
from scalable.quantities import Memory
from scalable.session.driver.tasks import TaskFolders, run_tasks
from scalable.session.session import ScalableSession
from tests.helpers.session.builders import Project
from tests.helpers.session.virtual import World
from tests.helpers.waiting import LONG_S, until

pytestmark = pytest.mark.usefixtures("world")


WAIT = "import time\ndef wait(name):\n    time.sleep(60)\n    return name\n"


class Site:
    """A project whose workers have been of several sizes."""

    def __init__(self, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
        self.project, self.capsys = project, capsys

    def ran(self, memory: str = "1GiB", workers: int = 2, **sections: Any) -> str:
        """A run with such workers; its name."""
        with self.project.session(**self.sized(memory, workers), **sections) as client:
            assert client.worker_count() == workers
        return self.project.runs()[-1].name

    def sized(self, memory: str, workers: int) -> dict[str, Any]:
        return {"components": {"demeter": {"memory": memory}}, "target": {"max_workers": workers}}

    def says(self, *arguments: str, status: int = 0) -> str:
        self.capsys.readouterr()
        assert main(list(arguments)) == status
        told = self.capsys.readouterr()
        return told.out + told.err

    def planned(self) -> tuple[int, str, str]:
        plan = json.loads(self.says("plan", "--format", "json"))
        return plan["workers_by_tag"]["demeter"], plan["resources_by_tag"]["demeter"]["memory"], plan["pinned"]


@pytest.fixture
def site(project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("COLUMNS", "300")  # what is said stands in one line
    return Site(project, capsys)


def test_the_plan_before_holds_until_it_is_lifted(site: Site) -> None:
    good = site.ran("1GiB", 2)
    site.ran("64MiB", 2)
    bad = site.ran("64MiB", 2)
    told = site.says("ops", "rollback", "--dry-run")
    assert f"would roll back scalable.yaml on here to {good}: 2 × demeter of 1 CPU / 1GiB" in told
    assert f"instead of {bad}: 2 × demeter of 1 CPU / 64MiB" in told
    assert site.planned() == (2, "64MiB", "")

    assert "scalable ops rollback --undo  lifts it" in site.says("ops", "rollback")
    assert site.planned() == (2, "1GiB", good)
    assert f"pinned by rollback to {good}" in site.says("plan")
    session = ScalableSession.from_yaml()
    assert session.spec().components["demeter"].memory == Memory.of_gib(1)
    with session:
        pass
    (plan,) = site.project.journal("plan")
    assert (plan["pinned"], plan["resources_by_tag"]["demeter"]["memory"]) == (good, "1GiB")

    assert f"no longer as {good} was" in site.says("ops", "rollback", "--undo")
    assert site.planned() == (2, "64MiB", "")
    assert "nothing is rolled back" in site.says("ops", "rollback", "--undo", status=2)
    assert json.loads(site.says("ops", "rollback", "--format", "json"))["run"] == good, (
        "the pinned run in between counts not"
    )


def test_a_second_rollback_goes_further_back_and_a_run_can_be_named(site: Site) -> None:
    first, second, third = site.ran("1GiB"), site.ran("512MiB"), site.ran("64MiB")
    assert json.loads(site.says("ops", "rollback", "--format", "json"))["run"] == second
    assert json.loads(site.says("ops", "rollback", "--format", "json"))["run"] == first
    assert "nothing to roll back to: no run of scalable.yaml on here before" in site.says("ops", "rollback", status=2)
    assert json.loads(site.says("ops", "rollback", "--to", third, "--format", "json"))["from"] == first
    assert site.planned()[1:] == ("64MiB", third)


def test_wrong_use_is_told_with_what_to_do(site: Site, tmp_path: Path) -> None:
    site.project.write()
    assert "nothing to roll back: no run of scalable.yaml on here is recorded" in site.says("ops", "rollback", status=2)
    run = site.ran()
    assert "nothing to roll back to" in site.says("ops", "rollback", status=2)
    assert "write one of them" in site.says("ops", "rollback", "--undo", "--to", run, status=2)
    assert "is not recorded" in site.says("ops", "rollback", "--to", "run-x", status=2)
    (tmp_path / "other.yaml").write_text((tmp_path / "scalable.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    told = site.says("ops", "rollback", "--to", run, "--manifest", "other.yaml", status=2)
    assert f"{run} is a run of" in told
    assert "not of other.yaml on here" in told


@pytest.mark.parametrize("content", ["not json", "{}", '[{"manifest": 1}, 2]'])
def test_a_file_of_pins_that_makes_no_sense_is_told_and_not_passed_over(project: Project, content: str) -> None:
    path = project.write()
    (project.folder / ".scalable/runs").mkdir(parents=True)
    (project.folder / ".scalable/pinned.json").write_text(content, encoding="utf-8")
    with pytest.raises(PlanningError, match=r"pinned\.json .*remove it to plan without what was rolled back"):
        ScalableSession.from_yaml(path)


def test_a_live_session_gets_more_workers_at_once_and_fewer_as_their_work_ends(site: Site, world: World) -> None:
    """Three tasks on one worker; the plan before had three workers, the one before that two."""
    module = site.project.module(WAIT)
    names = ("a", "b", "c")
    tasks = {name: {"component": "demeter", "run": f"{module}:wait", "arguments": {"name": name}} for name in names}
    two = site.ran("1GiB", 2, tasks=tasks)
    three = site.ran("1GiB", 3, tasks=tasks)
    session = site.project.session(**site.sized("1GiB", 3), tasks=tasks)
    with session as client, session.open_store() as store:
        session.scale({"demeter": 1})
        work = world.loop.create_task(run_tasks(session.live(), session.manifest.tasks, store, {}, TaskFolders()))
        told = site.says("ops", "rollback", "--to", three)
        assert f"{session.folder.run_id} is live: 3 demeter workers (had 1) from now on" in told
        started = until(lambda: site.project.journal("attempt-started")[2:] and site.project.journal("attempt-started"))
        assert {one["run"] for one in started} == set(names), "every task has a worker of its own"
        told = site.says("ops", "rollback", "--to", two)
        assert "2 demeter workers (had 3) from now on" in told
        assert client.worker_count() == 3, "all three are at work"
        assert world.run(work) == dict(zip(names, names, strict=True))
        assert until(lambda: client.worker_count() == 2)
    asked = [(one["ask"], one["target"]) for one in site.project.journal("operator")]
    assert asked == [("rollback", three), ("rollback", two)]
    assert not site.project.journal("retry")


def test_a_live_session_with_other_work_keeps_its_workers(site: Site) -> None:
    sweep = {
        "trial": {
            "factor": "size",
            "variants": [1],
            "assets": ["A"],
            "folds": 1,
            "run": f"{site.project.module(SCORE)}:score",
        }
    }
    session = site.project.session(components={}, sweeps=sweep)
    assert session.run_sweep("trial").complete
    run = site.project.runs()[-1].name
    with site.project.session(components={}, sweeps=sweep) as client:
        told = site.says("ops", "rollback", "--to", run)
        assert "it does other work; its workers stay as they are" in told
        assert client.worker_count() == 1


SCORE = """
def score(asset, variant, fold, seed):
    return {"score": 1.0}
"""


@pytest.mark.parametrize(
    ("workers", "words"), [({"nobody": 1}, "kind of workers 'nobody' is not defined"), ({"demeter": -1}, "-1 workers")]
)
def test_a_session_refuses_numbers_that_make_no_sense(project: Project, workers: dict[str, int], words: str) -> None:
    session = project.session()
    with session as client:
        with pytest.raises(WrongQuestionError, match=words):
            ask(session.folder, "rollback", workers=workers, to="run-x")
        assert client.worker_count() == 1


def test_a_session_with_a_scaler_of_its_own_is_not_interfered_with(project: Project) -> None:
    session = project.session()
    session.start(adaptive=AdaptiveScaler(min_workers={"demeter": 1}))
    try:
        with pytest.raises(WrongQuestionError, match="a scaler of the script's own decides"):
            ask(session.folder, "rollback", workers={"demeter": 2}, to="run-x")
    finally:
        session.close()


def test_a_session_that_scales_with_its_work_goes_on_to_up_to_the_number_rolled_back_to(project: Project) -> None:
    session = project.session(target={"adaptive": {"minimum": 0, "maximum": 3}})
    with session as client:
        ask(session.folder, "rollback", workers={"demeter": 1}, to="run-x")
        tags = session.live().engine.view.tags["demeter"]
        assert (tags.minimum, tags.maximum) == (0, 1)
        assert client.submit(abs, -1, tag="demeter").result(LONG_S) == 1
        assert client.worker_count() == 1
