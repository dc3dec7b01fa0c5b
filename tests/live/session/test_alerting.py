"""Alerts of a real session: each is provoked, told in journal, webhook, live.json and /metrics, and over in the end.

The rules are the real ones with shorter durations. One session has all the troubles at once, since each of them needs
workers, and workers need seconds.
"""

from __future__ import annotations

import threading
import urllib.request
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from scalable import chaos
from scalable.observe import RunView, read, state_of
from scalable.observe.alerts import AlertWatch, scaled
from scalable.observe.report import current
from scalable.session.driver.driver import Driver
from scalable.session.operate import live
from scalable.store import open_store
from tests.helpers.session.alerting import PROVOKED
from tests.helpers.session.builders import Project
from tests.helpers.session.desk import SECRET, desk
from tests.helpers.waiting import until

FASTER = 1 / 200  # stuck after 1.5 s, a long run takes 3 s, an alert is over after 0.3 s

EVERY_S = 0.2  # a look at the figures

CODE = """
    import time
    from pathlib import Path
    import scalable

    def troubled(folder, megabytes):
        scalable.progress(1, 2, "before it hangs")
        held = bytearray(megabytes << 20)
        held[::4096] = b"x" * len(held[::4096])
        while not Path(folder, "end").exists():
            time.sleep(0.05)
        return len(held)

    def again(folder):
        note = Path(folder, "tried")
        if not note.exists():
            note.touch()
            raise ConnectionError("the line is dead")

    def blocked(again):
        return 1

    def late():
        return 2
"""

LATE = """
    import time
    from pathlib import Path
    while Path({folder!r}, "hold").exists():
        time.sleep(0.05)
"""

LASTING = set(PROVOKED) - {"RetriesUsed"}  # which is over as soon as nothing was retried for a while


@dataclass
class Seen:
    """What a session with every trouble left, and what was seen of it while it had them."""

    journal: list[dict[str, Any]] = field(default_factory=list)
    live: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    metrics: str = ""
    messages: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    def alerts(self, state: str) -> dict[str, list[dict[str, Any]]]:
        found = defaultdict(list)
        for record in self.journal:
            if record["kind"] == "alert" and record.get("state") == state:
                found[record["alert"]].append(record)
        return found


def test_every_trouble_is_told_everywhere_while_it_lasts_and_is_over_in_the_end(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY_S", EVERY_S)
    with desk() as (url, messages):
        monkeypatch.setenv("SLACK_WEBHOOK", url)
        seen = troubled(project, monkeypatch)
        seen.messages = messages
    for name in PROVOKED:
        fired_with_text_and_remedy_and_was_over(seen, name)
    said_whom_it_is_about(seen)
    live_json_told_what_fires_who_works_and_which_dependency_is_down(seen)
    assert {one["alert"] for one in seen.status["alerts"]} >= LASTING, "scalable status does not show it"
    prometheus_would_have_seen_the_same(seen)
    the_webhook_got_a_message_for_each_that_says_what_to_do_and_which_run(seen)
    the_address_of_the_webhook_is_nowhere(seen)
    assert seen.files
    assert not [path for path in seen.files if path.exists()], "they outlive the session"


def troubled(project: Project, patch: pytest.MonkeyPatch) -> Seen:
    found, folder, module = Seen(), str(project.folder), project.module(CODE)
    (project.folder / "late.py").write_text(LATE.format(folder=folder).replace("\n    ", "\n"), encoding="utf-8")
    session = project.session(
        target={"processes": True, "max_workers": 3},
        components={"demeter": {"memory": "400MiB"}, "other": {}, "late": {"preload_script": "late.py"}},
        tasks={
            "troubled": {
                "component": "demeter",
                "run": f"{module}:troubled",
                "arguments": {"folder": folder, "megabytes": 275},
            },
            "again": {"component": "other", "run": f"{module}:again", "arguments": {"folder": folder}},
            "blocked": {"component": "other", "run": f"{module}:blocked", "needs": ["again"]},
            "late": {"component": "late", "run": f"{module}:late"},
        },
        policies={"retry": {"delay": "0.1s"}},
        alerts={"webhook": "${SLACK_WEBHOOK}"},
    )
    store = f"sqlite:///{folder}/results.db"
    open_store(store).close()
    patch.setattr(session, "open_store", lambda: open_store(store, patience_s=0.1, ask_again_s=0.1))
    with session:
        driver = session.live()
        assert driver.live is not None
        driver.live.alerting.watch = AlertWatch(scaled(FASTER))
        (project.folder / "hold").touch()
        lost = next(name for name, member in driver.cluster.members.items() if member.tag == "late")
        driver.cluster.sync(driver.kill_worker, lost, "so that another one must come, and is held up")
        work = threading.Thread(target=session.run_tasks)
        try:
            with chaos.blocked(f"{folder}/results.db"):
                work.start()
                assert until(lambda: set(PROVOKED) <= alerts_of(project, "firing")), alerts_of(project, "firing")
                found.live = until(lambda: told(driver))
                found.status = status_of(driver)
                with urllib.request.urlopen(found.live["metrics"], timeout=30) as answer:
                    found.metrics = answer.read().decode()
        finally:
            (project.folder / "end").touch()
            (project.folder / "hold").unlink()
            work.join()
        assert until(lambda: set(PROVOKED) <= alerts_of(project, "resolved")), alerts_of(project, "resolved")
        found.files = [session.folder.live_file, session.folder.targets_file]
        assert all(path.exists() for path in found.files)
    found.journal = project.journal()
    return found


def told(driver: Driver) -> dict[str, Any]:
    """What live.json says once it tells of all that lasts."""
    now = driver.attempts.folder.live()
    return now if {one["alert"] for one in now.get("alerts", ())} >= LASTING else {}


def status_of(driver: Driver) -> dict[str, Any]:
    view = RunView.of(read(driver.journal.path))
    return current(view, state_of(view), view.last or 0.0)


def alerts_of(project: Project, state: str) -> set[str]:
    return {record["alert"] for record in project.journal("alert") if record.get("state") == state}


def fired_with_text_and_remedy_and_was_over(seen: Seen, name: str) -> None:
    first = seen.alerts("firing")[name][0]
    assert first["severity"] == PROVOKED[name]
    assert first["text"]
    assert first["remedy"]
    assert first["labels"]
    over = seen.alerts("resolved")[name]
    assert over
    assert over[0]["t"] > first["t"]


def said_whom_it_is_about(seen: Seen) -> None:
    fired = seen.alerts("firing")
    assert fired["WorkerMemory"][0]["labels"]["worker"].startswith("demeter-")
    assert fired["Stuck"][0]["labels"] == fired["WorkerMemory"][0]["labels"]
    assert fired["PendingWork"][0]["labels"] == {"tag": "late"}
    assert fired["RetriesUsed"][0]["labels"] == {"tag": "other", "cause": "transient"}
    assert fired["DependencyDown"][0]["labels"] == {"dependency": "store"}


def live_json_told_what_fires_who_works_and_which_dependency_is_down(seen: Seen) -> None:
    assert {one["alert"] for one in seen.live["alerts"]} >= LASTING
    assert all(one["state"] == "firing" and one["remedy"] for one in seen.live["alerts"])
    states = {one["tag"]: one["state"] for one in seen.live["workers"]}
    assert states["late"] == "starting"
    assert seen.live["dependencies"]["store"]["up"] is False
    assert "locked" in seen.live["dependencies"]["store"]["text"]
    (node,) = seen.live["nodes"]
    assert 0 < node["memory_used"] < node["memory"]
    assert 0 <= node["cpu"] <= node["cpus"]


def prometheus_would_have_seen_the_same(seen: Seen) -> None:
    lines = seen.metrics.splitlines()
    assert 'scalable_dependency_up{dependency="store"} 0' in lines
    assert 'scalable_retries_total{tag="other",cause="transient"} 1' in lines
    assert 'scalable_pending_tasks{tag="late"} 1' in lines
    idle = next(line for line in lines if line.startswith("finetune_pod_idle_seconds") and not line.endswith(" 0"))
    assert float(idle.split()[-1]) > 300 * FASTER


def the_webhook_got_a_message_for_each_that_says_what_to_do_and_which_run(seen: Seen) -> None:
    for name in PROVOKED:
        began = next(text for text in seen.messages if text.startswith(f"*{name}* ("))
        assert "What to do: " in began
        assert "of proof on here" in began
    assert any(text.startswith("*DependencyDown* is over") for text in seen.messages)


def the_address_of_the_webhook_is_nowhere(seen: Seen) -> None:
    folder = seen.files[0].parent
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert len(written) > 3
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]
    assert not [text for text in seen.messages if SECRET in text]
