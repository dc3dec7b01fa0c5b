"""Tasks whose workers cannot be had fail with the reason instead of waiting for ever."""

from __future__ import annotations

import pytest

from scalable.cluster.base import LaunchRefused
from scalable.cluster.scheduler import NoWorkerError
from scalable.engine.events import Loss
from tests.helpers.session.builders import Project, here
from tests.helpers.session.virtual import World

GONE = "the licence server is gone"


def test_after_the_workers_cannot_start_any_more_what_waits_fails_with_the_reason(
    project: Project, world: World
) -> None:
    session = project.session(target={"max_workers": 2}, components={"model": {}, "other": {}})
    with session as client:
        victim = client.submit(here, tag="model").result()
        world.refuse = lambda name: LaunchRefused(GONE, definite=True) if name.startswith("model") else ""
        world.lose(victim)
        pending = client.submit(abs, -1, tag="model")
        dependent = client.submit(abs, pending, tag="other")
        with pytest.raises(NoWorkerError, match=rf"no model worker can be had: .*{GONE}"):
            pending.result()
        with pytest.raises(NoWorkerError):
            dependent.result()
        assert client.submit(abs, -2, tag="other").result() == 2, "others are not concerned"

        world.refuse = lambda name: ""
        assert client.submit(abs, -3, tag="model").result() == 3, "what comes later is tried anew"
    told = [one for one in project.journal("task") if one["status"] == "failed"]
    assert [one["tag"] for one in told] == ["model"]
    assert GONE in told[0]["error"]


@pytest.mark.parametrize("dies", [False, True], ids=["refused", "dies before it joins"])
def test_a_worker_that_never_could_start_fails_its_task(project: Project, world: World, dies: bool) -> None:
    """A thread is refused at once, a process dies before it has joined."""
    if dies:
        world.die_at_start = lambda name: GONE
    else:
        world.refuse = lambda name: LaunchRefused(GONE, definite=True)
    session = project.session(target={"adaptive": {"minimum": 0, "maximum": 1}})
    with session as client, pytest.raises(NoWorkerError, match=GONE):
        client.submit(abs, -1, tag="demeter").result()
    if dies:
        assert {one["cause"] for one in project.journal("workers-refused")} == {Loss.CANNOT_START.value}
