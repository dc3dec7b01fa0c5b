"""What a finished run leaves for later plans, also when several end at the same time or the file is not what it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.helpers.observe.history import understood


def test_processes_that_end_at_the_same_time_all_leave_what_they_learned(tmp_path: Path) -> None:
    code = """
import sys
from scalable.observe import RunView, learn
base, writer = sys.argv[1:]
sys.stdin.readline()
for number in range(10):
    name = f"run-{writer}-{number}"
    task = {"t": 2.0, "kind": "task", "tag": f"tag{writer}", "start": 1.0, "stop": 2.0, "status": "finished"}
    learn(base, RunView.of([{"t": 1.0, "kind": "run-started", "run_id": name}, task]))
"""
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(n)], stdin=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.close()
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    history = understood(tmp_path)
    assert history.seconds == {f"tag:tag{n}": (1.0,) * 10 for n in range(4)}
    assert len(history.sessions) == 40
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history.json", "history.lock"]
