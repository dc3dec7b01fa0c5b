"""What batch jobs do before their workers start: modules, environments, shell lines; and what is said when it fails."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import pytest

from scalable.cluster.scheduler import NoWorkerError
from scalable.engine.events import Loss
from scalable.observe import RunFolder
from scalable.observe.journal import read
from scalable.session.session import ScalableSession
from tests.helpers.slurm.helpers import SMALL, WITHIN_S, made
from tests.tools.slurm import PrivateSlurm

MODULES = """
module() {
  case "$1 $2" in
    "load model/1") export MODEL=one LOADEDMODULES=model/1 ;;
    load*) echo "Lmod has detected the following error: unknown module $2" >&2; return 1 ;;
    list*) echo "${LOADEDMODULES:-}" >&2 ;;
  esac
}
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project on a site that has modules."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site" / "init").mkdir(parents=True)
    (tmp_path / "site" / "init" / "bash").write_text(MODULES)
    monkeypatch.setenv("MODULESHOME", str(tmp_path / "site"))
    return tmp_path


def surroundings() -> tuple[str | None, str | None, str]:
    return os.environ.get("MODEL"), os.environ.get("SITE"), sys.prefix


def test_workers_start_in_what_modules_lines_and_an_environment_give_them(slurm: PrivateSlurm, project: Path) -> None:
    home = project / "env"
    venv.create(home, with_pip=False)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "beside.pth").write_text("\n".join(path for path in sys.path if path))
    with made(modules=["model/1"], setup="export SITE=hpc") as it:
        it.cluster.add_container(tag="own", memory=SMALL, setup=f"source {home}/bin/activate\nexport SITE=$SITE-own")
        it.cluster.add_workers(1, "small")
        it.cluster.add_workers(1, "own")
        small = it.client.submit(surroundings, tag="small")
        own = it.client.submit(surroundings, tag="own")
        assert small.result(WITHIN_S) == ("one", "hpc", sys.prefix)
        assert own.result(WITHIN_S) == ("one", "hpc-own", str(home))


def test_workers_that_share_a_job_have_each_the_set_up_of_their_kind(slurm: PrivateSlurm, project: Path) -> None:
    home = project / "env"
    venv.create(home, with_pip=False)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "beside.pth").write_text("\n".join(path for path in sys.path if path))
    with made(workers_per_job=2, modules=["model/1"], setup=f"source {home}/bin/activate") as it:
        it.cluster.add_workers(2, "small")
        it.cluster.wait_until({"small": 2}, WITHIN_S)
        assert len({member.launched.job for member in it.cluster.members.values()}) == 1
        assert it.client.submit(surroundings, tag="small").result(WITHIN_S) == ("one", None, str(home))
    with made(workers_per_job=2, setup="export A=1\nls /no/such/folder\n") as it:
        it.cluster.add_workers(2, "small")
        refusal = it.wait_for("workers-refused")[0]
        assert refusal["cause"] == Loss.CANNOT_START.value
        assert "exit status 2: setup: export A=1 …; the command was: ls /no/such/folder" in refusal["reason"]


def test_a_set_up_that_fails_is_named_with_its_output_before_any_worker_starts(slurm: PrivateSlurm) -> None:
    with made(modules=["model/1", "model/2"]) as it:
        it.cluster.add_workers(1, "small")
        refusal = it.wait_for("workers-refused")[0]
        assert refusal["cause"] == Loss.CANNOT_START.value
        assert "set-up step 2 of 2 failed with exit status 1: modules: module load model/2" in refusal["reason"]
        assert "it printed: Lmod has detected the following error: unknown module model/2" in refusal["reason"]
        assert not it.of("worker-joined")


def test_an_environment_without_the_package_is_told_what_to_install(slurm: PrivateSlurm, project: Path) -> None:
    venv.create(project / "bare", with_pip=False)
    with made(setup=f"source {project}/bare/bin/activate") as it:
        it.cluster.add_workers(1, "small")
        reason = it.wait_for("workers-refused")[0]["reason"]
        assert f"{project}/bare has no package" in reason
        assert f"install it there: {project}/bare/bin/python -m pip install -e " in reason


def test_a_preload_script_that_ends_the_shell_is_named(slurm: PrivateSlurm, project: Path) -> None:
    (project / "prepare.sh").write_text("set -e\nfalse\n")
    with made() as it:
        it.cluster.add_container(tag="own", memory=SMALL, preload_script="prepare.sh")
        it.cluster.add_workers(1, "own")
        reason = it.wait_for("workers-refused")[0]["reason"]
        assert f"exit status 1: preload_script: source {project}/prepare.sh; the command was: false" in reason


def test_a_session_gives_up_with_one_finding_and_asks_for_no_more(slurm: PrivateSlurm, project: Path) -> None:
    (project / "scalable.yaml").write_text(
        "version: 1\nproject: {name: setup}\n"
        f"components: {{model: {{cpus: 1, memory: {SMALL}, conda: no-such-environment}}}}\n"
        "targets: {hpc: {provider: slurm, queue: main, interface: lo, adaptive: {minimum: 0, maximum: 2}}}\n"
    )
    before = len(slurm.jobs())
    with ScalableSession.from_yaml(project / "scalable.yaml", target="hpc") as client:
        with pytest.raises(NoWorkerError, match="conda: conda activate no-such-environment"):
            client.gather(client.map(abs, range(4), tag="model"))
        assert len(slurm.jobs()) - before <= 3, "two that fail are enough, and at most one was asked for beside them"
    (run,) = RunFolder.list(project / ".scalable/runs")
    records = list(read(run.journal))
    codes = [record["code"] for record in records if record["kind"] == "finding"]
    told = [code for code in codes if code in ("setup-failed", "workers-given-up")]
    assert told in (["setup-failed", "workers-given-up"], ["workers-given-up"]), "the first only if it was seen alone"
