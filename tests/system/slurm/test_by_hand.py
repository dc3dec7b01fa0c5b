"""``SlurmCluster`` as in the tutorial, on a real Slurm: what is asked for is what runs, and nobody else gets in."""

from __future__ import annotations

import importlib
import os
import shlex
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from distributed.security import Security

from scalable.cluster.base import LaunchRefused
from scalable.cluster.client import ScalableClient
from scalable.cluster.slurm.provider import SlurmCluster
from scalable.errors import QuantityError, UsageError
from tests.helpers.slurm.clusters import skip_without_slurm, use
from tests.helpers.slurm.helpers import SMALL, WITHIN_S, made
from tests.helpers.waiting import eventually
from tests.tools.slurm import PrivateSlurm, Settings, running

ODD = 'it\'s a 50% "odd" #1 $HOME; `id` ü'


def test_the_tutorial(slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "prepare.py").write_text("import os\nos.environ['PREPARED'] = 'by Python'\n")
    (tmp_path / "prepare.sh").write_text("export PREPARED='by a shell'\n")
    cluster = SlurmCluster(queue="main", account="GCIMS", walltime="00:10:00", interface="lo")
    cluster.add_container(
        tag="demeter", cpus=2, memory="500M", preload_script="prepare.py", env={"SECRET": f"s3cret {ODD}"}
    )
    cluster.add_container(tag="xanthos", cpus=1, memory=SMALL, preload_script="prepare.sh")
    cluster.add_workers(n=2, tag="demeter")
    cluster.add_workers(n=1, tag="xanthos")
    client = ScalableClient(cluster)

    def surroundings(x: int) -> tuple[int, dict[str, str]]:
        return importlib.import_module("mine").double(x), dict(os.environ)

    many = client.map(surroundings, range(6), tag="demeter")
    one = client.submit(surroundings, 21, tag="xanthos")
    on_demeter, (answer, on_xanthos) = client.gather(many), one.result(WITHIN_S)

    assert [value for value, _ in on_demeter] == [0, 2, 4, 6, 8, 10]
    assert answer == 42
    assert {env["SECRET"] for _, env in on_demeter} == {f"s3cret {ODD}"}
    assert {env["PREPARED"] for _, env in on_demeter} == {"by Python"}
    assert (on_xanthos["PREPARED"], on_xanthos.get("SECRET")) == ("by a shell", None)
    assert (on_demeter[0][1]["OMP_NUM_THREADS"], on_xanthos["OMP_NUM_THREADS"]) == ("2", "1")
    assert (on_demeter[0][1]["SLURM_CPUS_PER_TASK"], on_xanthos["SLURM_CPUS_PER_TASK"]) == ("2", "1")
    cluster.wait_until({"demeter": 2, "xanthos": 1}, WITHIN_S)
    assert (client.worker_count(), client.worker_count("demeter"), client.worker_count("xanthos")) == (3, 2, 1)
    assert "s3cret" not in cluster.job_script("demeter")

    assert len(cluster.remove_workers(n=1, tag="demeter")) == 1
    eventually(lambda: client.worker_count() == 2, lambda: f"two workers, not {client.worker_count()}")
    assert client.submit(sum, [1, 2], tag="demeter").result(WITHIN_S) == 3
    (home,) = (tmp_path / ".scalable/slurm").iterdir()
    logs = {file.name: file.read_text() for file in (home / "logs").iterdir()}
    assert sorted(logs) == ["demeter-0.log", "demeter-1.log", "xanthos-2.log"]
    assert all("connected to tls://" in text and "s3cret" not in text for text in logs.values())

    client.close()
    cluster.close()
    cluster.close()
    assert {job.state for job in slurm.living()} <= {"COMPLETING"}
    assert [file.name for file in (home / "handout").iterdir()] == ["project.json"]


def test_what_is_previewed_is_what_runs(slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / ODD
    project.mkdir()
    monkeypatch.chdir(project)
    for name, value in {
        "PARTITION": "nowhere",
        "TIMELIMIT": "1",
        "EXPORT": "NONE",
        "ARRAY_INX": "1-9",
        "WAIT": "1",
    }.items():
        monkeypatch.setenv(f"SBATCH_{name}", value)
    for name in ("SLURM_JOB_ID", "SLURM_MEM_PER_CPU", "SLURM_NTASKS"):  # as if this ran inside a job itself
        monkeypatch.setenv(name, "77")
    options: dict[str, Any] = {"walltime": "01:30:00", "account": "GCIMS", "sbatch": ["--nice=7", "--mail-type=NONE"]}
    with made(**options, logs_location=project / "my logs") as it:
        it.cluster.add_container(tag="big", cpus=3, memory="1GiB")
        script = it.cluster.job_script("big")
        it.cluster.add_workers(1, "big")

        def place() -> tuple[str, str | None, list[str]]:
            return str(Path.cwd()), os.environ.get("SLURM_NTASKS"), sys.argv

        cwd, tasks, _ = it.client.submit(place, tag="big").result(WITHIN_S)
        (job,) = it.jobs()
        shown = slurm.run("scontrol", "show", "job", str(job))
        text = slurm.run("scontrol", "write", "batch_script", str(job), "-")
    assert (cwd, tasks) == (str(project), "1")
    assert text.rstrip("\0\n") == script.rstrip("\n")
    for fact in ("NumCPUs=3", "CPUs/Task=3", "MinMemoryNode=1G", "TimeLimit=01:30:00", "Partition=main", "Nice=7"):
        assert fact in shown
    for fact in ("Requeue=0", f"WorkDir={project}", f"StdOut={project}/my logs/big-0.log"):
        assert fact in shown.replace("%%", "%")
    assert "account=gcims" in shown.lower()  # Slurm writes accounts small
    assert (project / "my logs/big-0.log").exists()


def test_gpus_are_asked_for_and_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_slurm()
    site = tmp_path / "site"
    site.mkdir()
    (site / "gres.conf").write_text("Name=gpu File=/dev/zero\nName=gpu File=/dev/full\n")
    with running(site, Settings(nodes=1, extra=("GresTypes=gpu", "NodeName=DEFAULT Gres=gpu:2"))) as slurm:
        use(slurm, monkeypatch)
        monkeypatch.chdir(tmp_path)
        with made() as it:
            it.cluster.add_container(tag="learner", memory=SMALL, gpus=2)
            it.cluster.add_container(tag="greedy", memory=SMALL, gpus=3)
            it.cluster.add_workers(1, "learner")
            assert it.client.submit(lambda: os.environ["SLURM_GPUS_ON_NODE"], tag="learner").result(WITHIN_S) == "2"
            with pytest.raises(LaunchRefused):
                it.cluster.add_workers(1, "greedy")


def test_what_slurm_cannot_have_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong, words in {
        "queue": "queue: Slurm's options cannot hold",
        "account": "account: Slurm's options cannot hold",
    }.items():
        with pytest.raises(UsageError, match=words):
            SlurmCluster(**{wrong: "main\n#SBATCH --uid=0"})  # type: ignore[arg-type]
    with pytest.raises(QuantityError, match="is no option of sbatch"):
        SlurmCluster(sbatch=["--qos=high\ntrue"])
    with pytest.raises(QuantityError, match=r"sbatch\.0: --array is not yours to add.*write max_workers"):
        SlurmCluster(sbatch=["--array=1-3"])
    with pytest.raises(UsageError, match=r"no network interface 'ib7' that is up; it has: .*lo \(127\.0\.0\.1\)"):
        SlurmCluster(interface="ib7")
    assert not list(tmp_path.rglob("*.pem"))


def test_nobody_else_gets_in(slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with made(name="closed") as it:
        address = it.cluster.scheduler_address
        assert address.startswith("tls://")
        handout = it.cluster.handout
        assert stat.S_IMODE(handout.stat().st_mode) == 0o700
        keys = list(handout.glob("*.pem"))
        assert {stat.S_IMODE(file.stat().st_mode) for file in keys} == {0o600}
        secrets = [line for file in keys for line in file.read_text().splitlines() if len(line) > 40]
        script = it.cluster.job_script("small")
        assert secrets
        assert not any(secret in script for secret in secrets)
        others = {"plain": (address.replace("tls://", "tcp://"), None), "strange": (address, Security.temporary())}
        for where, security in others.values():
            with pytest.raises(OSError):
                ScalableClient(where, security=security, timeout=2, name="intruder")
        assert not any("intruder" in name for name in it.cluster.scheduler.clients)
    assert shlex.split(script.splitlines()[-1])[0] == "exec"
