"""Workers that cannot be had: the caller hears of it in Slurm's words, at once, and nothing is left behind."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from scalable.cluster.base import LaunchRefused
from scalable.cluster.scheduler import NoWorkerError
from scalable.errors import UsageError
from tests.helpers.slurm.helpers import SMALL, WITHIN_S, closed_port, made, path_without, silent_port
from tests.tools.slurm import PrivateSlurm


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_slurm_refuses_is_told_in_its_words_and_leaves_nothing(
    slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(slurm.jobs())
    with made(queue="nowhere") as it:
        with pytest.raises(LaunchRefused, match=r"sbatch refused the job: .*[Ii]nvalid partition"):
            it.cluster.add_workers(20, "small")
        assert it.cluster.members == {}
        assert len(it.of("workers-refused")) == 1
    with (
        made(sbatch=["--no-such-option"]) as it,
        pytest.raises(LaunchRefused, match="unrecognized option '--no-such-option'"),
    ):
        it.cluster.add_workers(1, "small")
    assert len(slurm.jobs()) == before
    with made() as it:
        it.cluster.add_container(tag="huge", cpus=99, memory=SMALL)
        it.cluster.add_container(tag="greedy", cpus=1, memory="99G")
        with pytest.raises(LaunchRefused, match="more than any node of the partition has"):
            it.cluster.add_workers(20, "huge")
        with pytest.raises(LaunchRefused, match=r"Memory specification|not available|more than any node"):
            it.cluster.add_workers(1, "greedy")
        it.cluster.add_workers(1, "small")  # the others did no harm
        assert it.client.submit(sum, [1, 2], tag="small").result(WITHIN_S) == 3
        path = os.environ["PATH"]
        monkeypatch.setenv("PATH", path_without("sbatch"))
        with pytest.raises(LaunchRefused, match="sbatch is not installed here; run this on a machine of the cluster"):
            it.cluster.add_workers(1, "small")
        monkeypatch.setenv("PATH", path)
    handed_in = slurm.jobs()[before:]
    assert sum(job.name.startswith("huge") for job in handed_in) == 1
    assert {job.state for job in handed_in} <= {"CANCELLED", "COMPLETING", "FAILED"}


def test_a_submission_whose_answer_was_lost_is_found_and_not_repeated(
    slurm: PrivateSlurm, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("sbatch")
    forgetful = project / "bin/sbatch"
    forgetful.parent.mkdir()
    forgetful.write_text(f"#!/bin/sh\n{real} \"$@\" > /dev/null\necho 'sbatch: error: Socket timed out' >&2\nexit 1\n")
    forgetful.chmod(0o755)
    monkeypatch.setenv("PATH", f"{forgetful.parent}{os.pathsep}{os.environ['PATH']}")
    with made() as it:
        it.cluster.add_workers(2, "small")
        assert it.client.submit(sum, [1, 2], tag="small").result(WITHIN_S) == 3
        assert sorted(job.id for job in slurm.living()) == it.jobs()
    assert {job.state for job in slurm.living()} <= {"COMPLETING"}


def test_nodes_that_are_all_drained_are_waited_for(slurm: PrivateSlurm) -> None:
    for node in slurm.nodes():
        slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=maintenance")
    with made() as it:
        it.cluster.add_workers(1, "small")
        future = it.client.submit(sum, [1, 2], tag="small")
        (told,) = it.wait_for("worker-pending")
        assert "the nodes it needs are down or reserved (" in told["reason"]
        for node in slurm.nodes():
            slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
        assert future.result(WITHIN_S) == 3


def test_a_scheduler_that_cannot_be_reached_is_named_with_the_reason_and_the_interfaces(slurm: PrivateSlurm) -> None:
    with ExitStack() as stack:
        closed, silent = stack.enter_context(closed_port()), stack.enter_context(silent_port())
        situations = {
            f"127.0.0.1:{closed}": "connection refused: nothing listens there",
            f"127.0.0.1:{silent}": "no answer within 1 s: a firewall",
            "no-such-machine.invalid": "the name no-such-machine.invalid is not known on",
        }
        opened = {
            address: stack.enter_context(made(contact_address=address, connect_within=1)) for address in situations
        }
        for it in opened.values():
            it.cluster.add_workers(1, "small")
        futures = {address: it.client.submit(sum, [1, 2], tag="small") for address, it in opened.items()}
        for address, reason in situations.items():
            refusal = opened[address].wait_for("workers-refused")[0]["reason"]
            assert f"cannot reach the scheduler at tls://{address}" in refusal
            assert reason in refusal
            assert "interfaces of this machine: " in refusal
            assert "lo (127.0.0.1)" in refusal
        with pytest.raises(NoWorkerError, match="cannot reach the scheduler"):
            futures[f"127.0.0.1:{closed}"].result(WITHIN_S)


def test_a_missing_image_is_refused_before_anything_is_handed_in(slurm: PrivateSlurm, project: Path) -> None:
    before = len(slurm.jobs())
    with made() as it, pytest.raises(UsageError, match=f"demeter: the image {project}/no.sif does not exist"):
        it.cluster.add_container(tag="demeter", path="no.sif")
    with made() as it, pytest.raises(UsageError, match=f"preload script {project}/no.sh does not exist"):
        it.cluster.add_container(tag="demeter", preload_script="no.sh")
    with made() as it, pytest.raises(UsageError, match="use letters, digits"):
        it.cluster.add_container(tag="de meter")
    assert len(slurm.jobs()) == before


def test_a_worker_that_differs_from_the_driver_is_refused_with_the_difference(
    slurm: PrivateSlurm, project: Path
) -> None:
    model = project / "model.py"
    model.write_text("ANSWER = 42\n")
    with made() as edited, made() as other, made() as moved:
        model.write_text("ANSWER = 43\n")
        handed_out = other.cluster.handout / "project.json"
        facts = json.loads(handed_out.read_text())
        facts |= {"code": {}, "python": "3.9.1", "packages": {**facts["packages"], "dask": "1.0", "pytest": "1.0"}}
        handed_out.write_text(json.dumps(facts))
        handed_out = moved.cluster.handout / "project.json"
        facts = json.loads(handed_out.read_text())
        handed_out.write_text(json.dumps({**facts, "folder": "/only/on/the/login/node"}))
        for it in (edited, other, moved):
            it.cluster.add_workers(1, "small")
        assert "is not the driver's: model.py differs" in edited.wait_for("workers-refused")[0]["reason"]
        reason = other.wait_for("workers-refused")[0]["reason"]
        here = ".".join(map(str, sys.version_info[:3]))
        assert f"this worker differs from the driver: Python {here} here, 3.9.1 there; dask" in reason
        assert "pytest" not in reason
        reason = moved.wait_for("workers-refused")[0]["reason"]
        assert "folder /only/on/the/login/node is not there on this worker; write code: upload" in reason


def test_code_is_uploaded_where_nodes_do_not_see_it(slurm: PrivateSlurm, project: Path) -> None:
    hidden, seen = project / "hidden", project / "seen"
    (hidden / "inner").mkdir(parents=True)
    seen.mkdir()
    (hidden / "inner/__init__.py").write_text("from . import part\n")
    (hidden / "inner/part.py").write_text("VALUE = 42\n")
    (hidden / "prepare.sh").write_text("export PREPARED=yes\n")
    with made(code="upload", folder=hidden, run_folder=seen) as it:
        it.cluster.add_container(tag="far", memory=SMALL, preload_script="prepare.sh")
        hidden.rename(project / "gone")
        it.cluster.add_workers(1, "far")

        def imported() -> tuple[int, str, str | None]:
            inner = importlib.import_module("inner")
            return inner.part.VALUE, str(inner.__file__), os.environ.get("PREPARED")

        value, place, prepared = it.client.submit(imported, tag="far").result(WITHIN_S)
        assert (value, prepared) == (42, "yes")
        assert str(hidden) not in place
        assert str(hidden) not in it.cluster.job_script("far")


def test_a_log_that_a_node_cannot_write_is_named(slurm: PrivateSlurm, project: Path) -> None:
    with made(logs_location=project / "logs") as it:
        (project / "logs").rmdir()
        (project / "logs").write_text("a file where a folder was")
        it.cluster.add_workers(1, "small")
        reason = it.wait_for("workers-refused")[0]["reason"]
        assert f"the node cannot write {project}/logs/small-0.log" in reason
