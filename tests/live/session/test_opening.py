"""From a manifest to a session: which file, which target, what is checked and planned before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.planning.components import ComponentPlan
from tests.helpers.session.builders import Project, here


def test_without_any_target_work_is_done_on_this_machine(project: Project) -> None:
    with project.session(targets={}, components={"a": {}, "b": {}}) as client:
        assert client.submit(here, tag="a").result().startswith("a-")
        assert client.worker_count() == 2


def test_a_plan_can_be_made_first_and_started_later(project: Project) -> None:
    session = project.session(target={"max_workers": 4})
    plan = session.plan(objective="minimize cost")
    assert isinstance(plan, ComponentPlan)
    assert session.plan(objective="minimize time").scale_plan.workers_by_tag == {"demeter": 4}
    assert plan.scale_plan.workers_by_tag == {"demeter": 1}
    client = session.start(plan)
    assert client.worker_count() == 1
    session.close()


def test_runs_go_where_the_environment_says(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALABLE_RUNS_DIR", str(project.folder / "somewhere else"))
    with project.session():
        pass
    assert len(list(Path("somewhere else").glob("run-*-proof-*"))) == 1
    assert project.runs() == []
