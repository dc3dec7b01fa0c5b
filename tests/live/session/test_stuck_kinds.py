"""Every way to hang: found, looked at, killed whole, run again, while the neighbour goes on; and nothing else is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from scalable import proc
from scalable.observe.incidents import IncidentFolder
from scalable.store import Filter, RowStatus, open_store
from tests.helpers.session.builders import Project
from tests.helpers.waiting import LONG_S, until

AFTER_S = 2.0
POLL_S = AFTER_S / 8  # how often workers tell of their runs when they are stuck so soon
KINDS = ["hang_in_lock", "hang_in_c", "hang_on_child", "stop_itself", "spin"]
CODE = """
    import os, time
    from pathlib import Path
    import scalable
    from scalable.chaos import workloads

    def stuck_once(kind, folder):
        scalable.progress(1, 2, "before it hangs")
        note = Path(folder, "runner")
        if not note.exists():
            note.write_text(os.environ["SCALABLE_RUNNER"])
            getattr(workloads, kind)()
        return "arrived"

    def neighbour(folder):
        while not Path(folder, "end").exists():
            scalable.progress(1)
            time.sleep(0.02)
        return "undisturbed"
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_hang_is_found_dumped_killed_and_run_again_and_its_row_arrives(project: Project, kind: str) -> None:
    module, folder = project.module(CODE), str(project.folder)
    session = project.session(
        target={"processes": True, "max_workers": 2},
        tasks={
            "stuck": {
                "component": "demeter",
                "run": f"{module}:stuck_once",
                "arguments": {"kind": kind, "folder": folder},
            },
            "neighbour": {"component": "demeter", "run": f"{module}:neighbour", "arguments": {"folder": folder}},
        },
        policies={"retry": {"delay": "0.1s"}, "stuck": {"after": f"{AFTER_S}s"}},
    )
    with session, ThreadPoolExecutor() as pool:
        running = pool.submit(session.run_tasks)
        ended = until(lambda: [r for r in project.journal("run-ended") if r["run"] == "stuck"])
        left = proc.marked("SCALABLE_RUNNER", (project.folder / "runner").read_text())
        (project.folder / "end").touch()  # whatever was found, so that nobody waits for the neighbour
        assert ended
        assert not left
        assert running.result(LONG_S) == {"stuck": "arrived", "neighbour": "undisturbed"}
    ends = [(r["run"], r["outcome"]) for r in project.journal("attempt-ended")]
    assert ends == [("stuck", "stuck"), ("stuck", "finished"), ("neighbour", "finished")]
    assert not project.journal("worker-lost")
    [incident] = IncidentFolder(session.folder.path).all()
    assert kind in incident.guilty, incident.guilty
    assert incident.found_after_s is not None
    assert incident.found_after_s < 20 * POLL_S  # one, if the machine has nothing else to do
    with open_store(session.manifest.store) as store:
        [row] = store.rows(Filter(name="stuck"))
    assert (row.run_status, row.attempt, row.value) == (RowStatus.FINISHED, 2, "arrived")
