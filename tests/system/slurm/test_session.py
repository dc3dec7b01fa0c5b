"""``ScalableSession`` with a Slurm target: the same workflow code as anywhere, its record, and what walltimes cost."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from scalable.cli.main import main
from scalable.cluster.base import LaunchRefused
from scalable.engine.events import Loss
from scalable.observe import RunFolder
from scalable.observe.journal import read
from scalable.session.session import ScalableSession
from tests.helpers.settings import remove_settings
from tests.helpers.slurm.helpers import WITHIN_S, made
from tests.helpers.slurm.work import waiting
from tests.helpers.waiting import eventually
from tests.tools.slurm import PrivateSlurm

SECRET = "hunter2-and-more"
SOON_S = 20  # after notice a worker has 4 s for what it runs and 10 s to close here
SIZE = {"cpus": 1, "memory": "400M"}
MODEL = """
import os, pathlib, time

def first(x):
    return x + 1

def second(first, factor):
    return first * factor, len(os.environ["PASSWORD"]), os.environ["SLURM_CPUS_PER_TASK"]

def long(told):
    told = pathlib.Path(told)
    (told.parent / f"running-{os.environ['SLURM_JOB_ID']}").touch()
    while not told.exists():
        time.sleep(0.05)
    return len(list(told.parent.glob("running-*")))
"""


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "model.py").write_text(MODEL)

    def session(self, target: dict[str, Any] | None = None, **sections: Any) -> ScalableSession:
        hpc = {"provider": "slurm", "queue": "main", "interface": "lo", "walltime": "00:30:00", **(target or {})}
        manifest = {"version": 1, "project": {"name": "on slurm"}, "targets": {"hpc": hpc}, **sections}
        file = self.folder / "scalable.yaml"
        file.write_text(yaml.safe_dump(manifest), encoding="utf-8")
        return ScalableSession.from_yaml(file, target="hpc")

    def journal(self, kind: str) -> list[dict[str, Any]]:
        (run,) = RunFolder.list(self.folder / ".scalable/runs")
        return [record for record in read(run.journal) if record["kind"] == kind]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    remove_settings(monkeypatch)
    return Project(tmp_path)


@pytest.mark.journey
def test_a_workflow_runs_as_anywhere_and_leaves_a_record(slurm: PrivateSlurm, project: Project) -> None:
    session = project.session(
        {"max_workers": 3, "sbatch": ["--nice=5"], "cpu_price": "0.02 EUR/h"},
        components={"demeter": {**SIZE, "cpus": 2, "env": {"PASSWORD": SECRET}}, "xanthos": SIZE},
        tasks={
            "first": {"component": "xanthos", "run": "model:first", "arguments": {"x": 20}},
            "second": {"component": "demeter", "run": "model:second", "arguments": {"factor": 2}, "needs": ["first"]},
        },
    )
    plan = session.plan()
    assert plan.scale_plan.workers_by_tag == {"demeter": 2, "xanthos": 1}
    with session as client:
        assert session.run_tasks()["second"] == (42, len(SECRET), "2")
        assert client.submit(sum, [1, 2], tag="xanthos").result(WITHIN_S) == 3
        eventually(lambda: client.worker_count() == 3, lambda: f"three workers, not {client.worker_count()}")
        assert {job.name.rpartition("-")[0] for job in slurm.living()} == {"demeter", "xanthos"}
        session.scale({"demeter": 0, "xanthos": 2})
        counts = {"demeter": 0, "xanthos": 2}
        eventually(lambda: {tag: client.worker_count(tag) for tag in counts} == counts, lambda: f"{counts}")
        assert set(client.gather(client.map(lambda x: x % 2, range(10), tag="xanthos"))) == {0, 1}
    eventually(lambda: not slurm.living(), lambda: f"{slurm.living()} to be gone")
    jobs = [record["job"] for record in project.journal("worker-started")]
    assert len(jobs) == 4
    assert all(job.startswith("job ") for job in jobs)
    assert [record["state"] for record in project.journal("run-ended")] == ["finished", "finished"]
    assert [record["status"] for record in project.journal("ended")] == ["ok"]
    left = [file for file in (project.folder / ".scalable").rglob("*") if file.is_file()]
    assert not [file for file in left if SECRET in file.read_text(errors="replace")]
    assert not [file for file in left if "PRIVATE KEY" in file.read_text(errors="replace")]
    assert sum(file.parent.name == "logs" for file in left) == 4


def test_the_bill_of_an_exclusive_job_is_for_its_whole_node(slurm: PrivateSlurm, project: Project) -> None:
    target = {"max_workers": 1, "exclusive": True, "cpu_price": "3600 EUR/h"}
    session = project.session(target, components={"demeter": SIZE})
    plan = session.plan()
    assert plan.cost_estimate is not None and plan.cost_estimate.total_hourly == pytest.approx(4 * 3600)
    with session as client:
        assert client.submit(sum, [1, 2], tag="demeter").result(WITHIN_S) == 3
    assert {record["price"] for record in project.journal("machine")} == {"14400"}, "four cores for one worker of one"
    used = project.journal("hours")[-1]["used"]["core-hours"]
    assert float(project.journal("cost")[-1]["exact"]) == pytest.approx(3600 * used, rel=0.02)


def test_it_scales_by_itself_up_with_the_work_and_down_without(slurm: PrivateSlurm, project: Project) -> None:
    session = project.session(
        {"adaptive": {"minimum": 0, "maximum": 3}},
        components={"demeter": SIZE, "xanthos": SIZE},
        policies={"scaling": {"cooldown": "0s", "idle": "1s"}},
    )

    def slowly(x: int) -> int:
        time.sleep(0.5)
        return x

    with session as client:
        assert slurm.living() == []
        assert client.submit(sum, [1, 2], tag="xanthos").result(WITHIN_S) == 3
        futures = client.map(slowly, range(12), tag="demeter")
        assert client.gather(futures) == list(range(12))
        assert max(record["workers"]["demeter"]["live"] for record in project.journal("gauge")) > 1
        del futures
        eventually(lambda: client.worker_count() <= 1, lambda: f"idle workers to go: {client.worker_count()}")
    started = project.journal("worker-started")
    assert {record["tag"] for record in started} == {"demeter", "xanthos"}
    assert project.journal("worker-removed")[0]["reason"].startswith("idle")


def test_what_waits_in_slurms_queue_is_shown_with_slurms_reason(
    slurm: PrivateSlurm, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    session = project.session({"max_workers": 20}, components={"wide": {**SIZE, "cpus": 4}})
    with session as client:
        assert client.gather(client.map(lambda x: x * x, range(40), tag="wide")) == [x * x for x in range(40)]
        words = "waits for free nodes (Resources)"

        def status() -> str:
            capsys.readouterr()
            assert main(["status"]) == 0
            return " ".join(capsys.readouterr().out.split())

        wanted = ("4 live", "16 pending", words)
        eventually(lambda: all(one in status() for one in wanted), lambda: f"{wanted} in {status()}")
    assert words in {record["reason"] for record in project.journal("worker-pending")}


def test_a_session_that_slurm_refuses_says_why_and_leaves_nothing(slurm: PrivateSlurm, project: Project) -> None:
    before = len(slurm.jobs())
    session = project.session({"queue": "nowhere"}, components={"demeter": SIZE})
    with pytest.raises(LaunchRefused, match=r"[Ii]nvalid partition"):
        session.start()
    (ended,) = project.journal("ended")
    assert (ended["status"], "partition" in ended["reason"]) == ("failed", True)
    assert len(slurm.jobs()) == before
    assert not list(project.folder.rglob("*.pem"))


def test_a_walltime_that_ends_costs_no_retry(slurm: PrivateSlurm, project: Project) -> None:
    told = project.folder / "told"
    session = project.session(
        components={"demeter": SIZE},
        tasks={"long": {"component": "demeter", "run": "model:long", "arguments": {"told": str(told)}}},
        policies={"retry": {"times": 0}},
    )
    with session:
        results: list[Any] = []
        runner = threading.Thread(target=lambda: results.append(session.run_tasks()))
        runner.start()
        eventually(lambda: list(project.folder.glob("running-*")), lambda: "the task to run")
        (first,) = (int(file.name.partition("-")[2]) for file in project.folder.glob("running-*"))
        slurm.expire(first)
        eventually(lambda: len(list(project.folder.glob("running-*"))) == 2, lambda: "it to run again", 90)
        eventually(lambda: project.journal("worker-lost"), lambda: "Slurm to say how the first job ended")
        told.touch()
        runner.join(WITHIN_S)
        assert results == [{"long": 2}]
    (lost,) = project.journal("worker-lost")
    assert lost["cause"] in (Loss.WALLTIME.value, Loss.PREEMPTED.value)
    assert [record["outcome"] for record in project.journal("attempt-ended")] == [lost["cause"], "finished"]
    assert project.journal("retry") == []


def test_notice_lets_short_work_finish_and_hands_the_rest_over(
    slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    short, long = tmp_path / "short", tmp_path / "long"
    short.mkdir()
    long.mkdir()
    with made(walltime="00:10:00", grace=4, allowed_failures=0) as it:
        it.cluster.add_workers(2, "small")
        it.cluster.wait_until({"small": 2}, WITHIN_S)
        futures = it.client.map(waiting(), [short / "told", long / "told"], tag="small")
        eventually(lambda: len(list(tmp_path.glob("*/running-*"))) == 2, lambda: "both to run")
        for job in it.jobs():
            slurm.expire(job, after_s=SOON_S)
            slurm.run("scancel", "--signal=TERM", "--batch", str(job))  # as Slurm does, which looks every half minute
        it.wait_for("worker-leaving")
        (short / "told").touch()
        assert futures[0].result(WITHIN_S) == "told"
        assert len(list(short.glob("running-*"))) == 1
        eventually(lambda: len(list(long.glob("running-*"))) == 2, lambda: f"the rest to move: {it.told}")
        (long / "told").touch()
        assert futures[1].result(WITHIN_S) == "told"
        it.wait_for("worker-lost")
        assert {lost["cause"] for lost in it.of("worker-lost")} == {Loss.PREEMPTED.value}
