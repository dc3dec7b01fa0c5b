"""What workers of a real local cluster believe of this machine."""

from __future__ import annotations

from scalable.cluster.base import usable_cpus
from tests.helpers.session.builders import Project


def test_workers_of_this_machine_believe_in_their_part_of_it(project: Project) -> None:
    """A profile allows 4 CPUs; two workers of one machine must not have thread pools of 4 each."""
    code = "import os\ndef score(size, asset, fold): return {'threads': int(os.environ['OMP_NUM_THREADS'])}\n"
    sweep = {"factor": "size", "variants": [1], "assets": ["A"], "folds": 1, "run": f"{project.module(code)}:score"}
    target = {"max_workers": 2, "processes": True}
    session = project.session(components={}, sweeps={"trial": sweep}, target=target)
    part = max(1, usable_cpus() // 2)
    assert session.spec().components["standard"].cpus == min(4, part)
    session.run_sweep("trial")
    with session.open_store() as store:
        (row,) = store.rows()
    assert row.metrics["threads"] == min(4, part)
