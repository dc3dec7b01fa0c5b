"""The figures of a real session: complete, right, readable by Prometheus, and nothing the run would suffer from."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from scalable import proc
from scalable.observe.folders import RunFolder
from scalable.observe.metrics import METRICS
from scalable.session.operate import live
from scalable.session.operate.measures import Dependencies
from scalable.store.artefacts import open_artefacts
from scalable.store.tracking import open_tracker
from tests.helpers.session.builders import Project
from tests.helpers.tracking.desk import desk
from tests.helpers.waiting import until
from tests.tools.system import search_path

CODE = """
    import time
    from pathlib import Path

    def score(depth, asset, fold):
        while depth == 2 and not Path("end").exists():
            time.sleep(0.02)
        return {"score": depth}
"""

ONLY_AT_TIMES = {"scalable_retries_total", "scalable_incidents_total"}


def test_a_sweep_is_seen_from_outside_while_it_runs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.1)
    sweep = {
        "factor": "depth", "variants": [1, 2], "assets": ["A"], "folds": 2,
        "run": f"{project.module(CODE)}:score", "run_minutes": 0.01,
    }  # fmt: skip
    session = project.session(
        components={}, sweeps={"trial": sweep}, budget={"monthly": "100 EUR", "fixed": {"database": "10 EUR"}},
        target={"max_workers": 2, "processes": True, "cpu_price": "0.36 EUR/h", "dashboard_address": "127.0.0.1:0"},
        store=f"sqlite:///{project.folder}/r.db",
    )  # fmt: skip
    killed = RunFolder.create("killed")
    killed.targets_file.parent.mkdir()
    killed.targets_file.write_text('[{"targets": ["127.0.0.1:1"]}]\n')
    work = threading.Thread(target=session.run_sweep, args=("trial",))
    work.start()
    try:
        assert until(lambda: len(project.journal("rows")) == 2)
        told = until(lambda: complete(session.folder.live()))
        driver = session.live()
        text = got(told["metrics"])
        targets = json.loads(session.folder.targets_file.read_text(encoding="utf-8"))
        of_one_worker = got(f"http://{targets[1]['targets'][0]}/metrics")
        pids = {worker["worker"]: int(worker["job"].removeprefix("process ")) for worker in told["workers"]}
        held = {name: proc.tree_resident(pid) for name, pid in pids.items()}
        of_dask = got(f"{told['metrics']}/dask")
        folder, session_facts = session.folder, dict(driver.measures.info)
    finally:
        (project.folder / "end").touch()
        work.join()

    samples = parsed(text)
    assert set(METRICS) - {name for name, _ in samples} == ONLY_AT_TIMES
    assert samples["scalable_rows_expected", 'sweep="trial"'] == 4
    assert samples["scalable_rows", 'sweep="trial",state="done"'] == 2
    assert sum(value for (name, _), value in samples.items() if name == "finetune_rows_persisted_per_min") == 2
    assert samples["scalable_cost_month_total", 'currency="EUR"'] >= 10, "with what is fixed"
    assert samples["scalable_budget_month", 'currency="EUR"'] == 100
    assert samples["scalable_dependency_up", 'dependency="store"'] == 1
    assert max(value for (name, _), value in samples.items() if name == "scalable_run_seconds") > 0
    for worker in told["workers"]:
        assert 0.5 < worker["memory"] / held[worker["worker"]] < 2
        assert worker["runs"]
    accepted(text)

    assert session_facts["project"] == "proof"
    assert [one["labels"]["role"] for one in targets] == ["driver", "worker"]
    assert {one["labels"]["run"] for one in targets} == {folder.run_id}
    assert len(targets[1]["targets"]) == len(told["workers"])
    assert all(where.startswith("127.0.0.1:") for one in targets for where in one["targets"]), "seen from elsewhere"

    own = parsed(of_one_worker)
    assert {name for name, _ in own} == {name for name in METRICS if re.match("scalable_(worker|node)_", name)} | {
        "finetune_pod_idle_seconds"
    }
    accepted(of_one_worker)
    assert of_dask
    assert "scalable_" not in of_dask

    assert not killed.targets_file.exists(), "Prometheus goes on asking a session that was killed"
    assert folder.live() == {}
    assert not folder.targets_file.exists()


def test_a_tracking_server_and_an_object_store_are_asked_whether_they_answer(tmp_path: Path) -> None:
    with desk() as one:
        url, port = one.url, int(one.url.rpartition(":")[2])
    dependencies = Dependencies(ask_every_s=0.02)
    artefacts = open_artefacts("memory://answers")
    with open_tracker(url, outbox=tmp_path) as tracker, dependencies.used(tracker, artefacts):
        assert until(lambda: not dependencies.states().get("tracking", {"up": True})["up"])
        assert "refused" in dependencies.states()["tracking"]["text"]
        assert until(lambda: dependencies.states().get("objects")) == {"up": True, "text": ""}
        with desk(port):
            assert until(lambda: dependencies.states()["tracking"]["up"])


def test_what_is_not_used_any_more_is_not_told_of(tmp_path: Path) -> None:
    with desk() as one:
        url = one.url
    dependencies = Dependencies(ask_every_s=0.02)
    with open_tracker(url, outbox=tmp_path) as tracker, dependencies.used(tracker, open_artefacts(tmp_path)):
        assert until(lambda: dependencies.states())
    assert dependencies.states() == {}, "nobody can mend it by then"


def complete(told: dict[str, Any]) -> dict[str, Any]:
    """What live.json says once workers are at work and have told what they use."""
    busy = [one for one in told.get("workers", ()) if one["runs"] and one["runs"][0].get("memory") and one["memory"]]
    return told if busy and len(busy) == len(told["workers"]) and told["nodes"] and told["dependencies"] else {}


def got(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def parsed(text: str) -> dict[tuple[str, str], float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {(name.partition("{")[0], name.partition("{")[2].rstrip("}")): float(value) for name, _, value in lines}


def accepted(text: str) -> None:
    """By Prometheus' own tool, where it is installed."""
    if tool := shutil.which("promtool", path=search_path()):
        done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
