"""The figures of a real session: complete, right, readable by Prometheus, and nothing the run would suffer from."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.request
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalable import proc
from scalable.cluster.members import Member
from scalable.observe.folders import RunFolder
from scalable.observe.metrics import METRICS, OTHERS
from scalable.quantities import Money
from scalable.session import live, measures
from scalable.session.attempts import Attempt, Attempts
from scalable.session.dependencies import Dependencies
from scalable.session.measures import Purse, bounded, of_worker
from scalable.store.artefacts import open_artefacts
from scalable.store.tracking import open_tracker
from tests.session.builders import Project
from tests.tools.system import search_path
from tests.tracking.desk import desk
from tests.waiting import until

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


def test_what_fails_while_showing_a_session_is_told_once_and_does_not_stop_it(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.0)
    session = project.session()
    with session as client:
        measures = session.live().measures
        monkeypatch.setattr(measures, "workers", lambda: 1 / 0)
        assert until(lambda: "figures and alerts of this session stopped" in caplog.text)
        assert client.submit(len, "abc", tag="demeter").result() == 3
    assert caplog.text.count("ZeroDivisionError") == 1
    assert project.ended() == ("ok", "")


def test_a_live_file_that_cannot_be_written_is_told_once_and_does_not_stop_it(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.0)
    session = project.session()
    with session as client:
        session.folder.live_file.unlink(missing_ok=True)
        session.folder.live_file.mkdir()  # a file cannot take its place
        assert until(lambda: "live.json cannot be written" in caplog.text)
        assert client.submit(len, "abc", tag="demeter").result() == 3
        session.folder.live_file.rmdir()
        assert until(lambda: session.folder.live().get("workers")), "it goes on as soon as it can"
    assert caplog.text.count("cannot be written") == 1


def test_workers_beyond_those_told_one_by_one_are_one_for_each_tag() -> None:
    workers = [
        {
            "worker": f"w-{at}", "tag": "ab"[at % 2], "silent_s": float(at), "rows_per_min": 1,
            "cpu": 0.5, "cpus": 1, "memory": None if at == 1001 else 10, "memory_limit": 20,
        }
        for at in range(1004)
    ]  # fmt: skip
    told = list(bounded(workers))
    assert len(told) == 1002
    assert told[1000] == {
        "worker": OTHERS, "tag": "a", "silent_s": 1002.0, "rows_per_min": 2, "cpu": 1.0, "cpus": 2, "memory": 20,
        "memory_limit": 40,
    }  # fmt: skip
    assert told[1001]["memory"] == 10
    assert {sample.labels["worker"] for sample in of_worker(told[1000])} == {OTHERS}


def test_a_tracking_server_and_an_object_store_are_asked_whether_they_answer(tmp_path: Path) -> None:
    with desk() as one:
        url, port = one.url, int(one.url.rpartition(":")[2])
    dependencies = Dependencies(ask_every_s=0.02)
    artefacts = open_artefacts("memory://answers")
    with open_tracker(url, outbox=tmp_path) as tracker, dependencies.used(tracker, artefacts):
        assert until(lambda: not dependencies.told().get("tracking", {"up": True})["up"])
        assert "refused" in dependencies.told()["tracking"]["text"]
        assert until(lambda: dependencies.told().get("objects")) == {"up": True, "text": ""}
        with desk(port):
            assert until(lambda: dependencies.told()["tracking"]["up"])


def test_without_a_server_only_what_is_used_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    dependencies = Dependencies()
    with open_tracker(None, outbox=tmp_path) as tracker, dependencies.used(tracker, open_artefacts(tmp_path)):
        assert dependencies.told() == {}


def test_what_is_not_used_any_more_is_not_told_of(tmp_path: Path) -> None:
    with desk() as one:
        url = one.url
    dependencies = Dependencies(ask_every_s=0.02)
    with open_tracker(url, outbox=tmp_path) as tracker, dependencies.used(tracker, open_artefacts(tmp_path)):
        assert until(lambda: dependencies.told())
    assert dependencies.told() == {}, "nobody can mend it by then"


def test_a_question_that_is_answered_too_late_is_not_told_of() -> None:
    asked, answered = threading.Event(), threading.Event()
    dependencies = Dependencies()

    def question() -> None:
        asked.set()
        answered.wait(30)
        raise OSError("it took too long")

    with dependencies.asked("objects", question):
        assert asked.wait(30)
        [thread] = [one for one in threading.enumerate() if one.name == "scalable-objects"]
    answered.set()
    until(lambda: dependencies.told() or not thread.is_alive())
    assert dependencies.told() == {}


def test_what_is_fixed_is_paid_in_the_next_month_too(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = SimpleNamespace(spent=Money(Decimal(7), "EUR"))
    found = measures.Measures(SimpleNamespace(meter=spent))  # type: ignore[arg-type]
    monthly, fixed, before = (Money(Decimal(amount), "EUR") for amount in (100, 10, 20))
    found.purse = Purse(monthly, fixed, before, "2024-05")

    def of_the_month() -> float:
        [sample] = [one for one in found.of_money() if one.metric == "scalable_cost_month_total"]
        return sample.value

    monkeypatch.setattr(measures, "month", lambda moment: "2024-05")
    assert of_the_month() == 37
    monkeypatch.setattr(measures, "month", lambda moment: "2024-06")
    assert of_the_month() == 10
    spent.spent = Money(Decimal(9), "EUR")
    assert of_the_month() == 12


def test_a_clock_that_is_set_back_does_not_hold_up_alerts(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.0)
    looks: list[float] = []
    session = project.session()
    with session:
        shown = session.live().live
        assert shown is not None
        monkeypatch.setattr(live, "time", SimpleNamespace(time=lambda: 0.0, monotonic=time.monotonic))
        monkeypatch.setattr(shown.alerting, "look", lambda samples, now: looks.append(now))
        assert until(lambda: len(looks) > 1)
    assert looks == sorted(looks)
    assert looks[0] > 1e9


def test_a_clock_that_is_set_forward_makes_no_worker_late(monkeypatch: pytest.MonkeyPatch) -> None:
    template = SimpleNamespace(tag="model")
    member = Member("model-0", template, SimpleNamespace(), time.time())  # type: ignore[arg-type]
    record = SimpleNamespace(requested=0, workers=0, ahead=0, returning=0)
    state = SimpleNamespace(tags={"model": record}, paused="", braked="")
    driver = SimpleNamespace(
        engine=SimpleNamespace(state=state), counted={}, cluster=SimpleNamespace(members={member.name: member})
    )
    monkeypatch.setattr(measures, "time", SimpleNamespace(time=lambda: time.time() + 4000))

    found = measures.Measures(driver)  # type: ignore[arg-type]
    [late] = [one.value for one in found.of_tags([]) if one.metric == "scalable_scale_up_seconds"]
    assert late < 300
    member.asked -= 4000
    [late] = [one.value for one in found.of_tags([]) if one.metric == "scalable_scale_up_seconds"]
    assert late >= 4000


def test_a_clock_that_was_set_forward_makes_no_run_long() -> None:
    attempt = Attempt("fit", 1, "model-0", "model", "tcp://1", time.time() - 4000, b"")
    [told] = Attempts.activity(SimpleNamespace(under_way={attempt.key: attempt}, guarded={}))  # type: ignore[arg-type]
    assert told["seconds"] < 300


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
