"""A sweep on an autoscaled pool, from no node to none: its rows are those of a loop on this machine."""

from __future__ import annotations

from scalable.session.session import ScalableSession
from tests.helpers.kubernetes.helpers import Namespace, Project
from tests.helpers.kubernetes.timeline import Timeline
from tests.helpers.sweeps.faults.trading import NAME, assert_same, naive, rows, write
from tests.helpers.waiting import eventually


def test_a_sweep_from_no_node_to_none_gives_the_rows_of_a_loop_here(kube: Namespace, project: Project) -> None:
    target = project.target("burst", code="image", adaptive={"minimum": 0, "maximum": 2})
    session = ScalableSession.from_yaml(write(project.folder, target), target="here")
    eventually(lambda: not kube.nodes("burst"), lambda: "an empty pool")
    with Timeline(kube, "burst") as seen:
        outcome = session.run_sweep(NAME)
        assert outcome.complete, outcome.why()
        eventually(lambda: not kube.nodes("burst"), lambda: f"{kube.nodes('burst')} to go")
    assert_same(rows(project.folder), naive())
    assert seen.most("nodes") >= 1
    assert (seen.moments[0].nodes, seen.moments[-1].nodes) == (0, 0)
    assert kube.left() == []
