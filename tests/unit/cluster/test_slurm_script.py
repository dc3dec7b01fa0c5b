"""What is written for Slurm and what is understood of its answers, without a Slurm."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.cluster.network import contact
from scalable.cluster.slurm.commands import (
    NEVER,
    SlurmState,
    Together,
    complaint,
    described,
    never,
    recorded,
    states,
    waits,
)
from scalable.cluster.slurm.launcher import judge
from scalable.cluster.slurm.script import SlurmSite, image, mount, surroundings
from scalable.engine.events import Loss
from scalable.errors import UsageError
from scalable.quantities import Memory
from scalable.worker.options import CANNOT_CONNECT, CANNOT_READ, CANNOT_START
from tests.helpers.cluster.slurm_script import script

PLAIN = st.text(st.characters(exclude_categories=["C"], exclude_characters="\\"), min_size=1)


def directives(text: str) -> dict[str, str]:
    """As Slurm reads them: words in quotes are one, a # outside of them begins a comment."""
    found = {}
    for line in text.split("\n"):
        if line.startswith("#SBATCH "):
            option = shlex.split(line.removeprefix("#SBATCH "), comments=True)[0]
            name, _, value = option.removeprefix("--").partition("=")
            found[name] = value
    return found


def test_a_script_says_what_the_worker_needs() -> None:
    site = SlurmSite(
        queue="batch", account="GCIMS", walltime="04:00:00", sbatch=("--qos=high",), folder="/home/me/project"
    )
    found = directives(script(site, cpus=10, memory=Memory.parse("20GiB"), gpus=2))
    assert found == {
        "job-name": "demeter-1234", "comment": "demeter-0", "partition": "batch", "account": "GCIMS",
        "time": "04:00:00", "nodes": "1", "ntasks": "1", "cpus-per-task": "10", "mem": "20480M", "gres": "gpu:2",
        "output": "/logs/demeter-0.log", "open-mode": "append", "chdir": "/home/me/project",
        "signal": "B:TERM@30", "export": "ALL", "no-requeue": "", "qos": "high",
    }  # fmt: skip


def test_what_is_not_said_is_left_to_slurm() -> None:
    found = directives(script())
    assert not {"partition", "account", "time", "mem", "gres", "chdir", "signal"} & set(found)


def test_memory_is_rounded_up_to_what_slurm_counts_in() -> None:
    assert directives(script(memory=Memory(2**20 + 1)))["mem"] == "2M"


@given(PLAIN, PLAIN)
def test_any_text_stays_one_value_and_begins_no_line_of_its_own(queue: str, folder: str) -> None:
    text = script(SlurmSite(queue=queue, folder=f"/{folder}"), log=f"/{folder}/a.log", preload_script=f"{folder}.sh")
    found = directives(text)
    assert found["partition"] == queue
    assert found["chdir"] == f"/{folder}"
    assert found["output"].replace("%%", "%") == str(Path(f"/{folder}/a.log"))
    assert text.count("\n") == script(SlurmSite(queue="q", folder="/f"), preload_script="f.sh").count("\n")


@pytest.mark.parametrize("wrong", ["a\nb", "a\\b", "a\rb", "a\0b"])
def test_what_slurm_cannot_have_in_a_value_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="queue: Slurm's options cannot hold"):
        SlurmSite(queue=wrong)


def test_an_image_is_entered_with_its_folders_and_graphics_cards() -> None:
    site = SlurmSite(folder="/home/me/project", handout="/run/handout")
    text = script(site, image="/images/demeter.sif", mounts={"/data": "/in", "/a,b": '/c"d'}, gpus=1)
    line = shlex.split(text.splitlines()[-1])
    assert line[:4] == ["exec", "apptainer", "exec", "--nv"]
    assert line[4:10] == ["--bind", "/home/me/project:/home/me/project", "--bind", "/run/handout:/run/handout",
                          "--bind", "/data:/in"]  # fmt: skip
    assert line[10:12] == ["--mount", 'type=bind,"src=/a,b","dst=/c""d"']
    assert line[12:17] == ["/images/demeter.sif", "python3", "-P", "-m", "scalable.worker"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("demeter.sif", "demeter.sif"),
        ("/images/x.img", "/images/x.img"),
        ("ghcr.io/org/x:1", "docker://ghcr.io/org/x:1"),
        ("oras://reg/x:1", "oras://reg/x:1"),
        ("./folder", "folder"),
    ],
)
def test_images_are_files_or_come_from_a_registry(written: str, meant: str) -> None:
    assert image(written) == meant


def test_mounts_are_written_as_people_do_unless_a_path_has_their_marks() -> None:
    assert mount("/a b", "/c") == ("--bind", "/a b:/c")
    assert mount("/a:b", "/c") == ("--mount", 'type=bind,"src=/a:b","dst=/c"')


def test_variables_that_contradict_the_script_are_left_out_and_others_kept() -> None:
    text = script(SlurmSite(queue="batch", sbatch=("--qos=high",)), memory=Memory.parse("1GiB"))
    own = {f"SBATCH_{name}": "x" for name in ("PARTITION", "QOS", "MEM_PER_CPU", "EXPORT", "ARRAY_INX", "ACCOUNT")}
    own |= {"PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "SLURM_NTASKS": "7"}
    assert surroundings(text, own, {"PATH": "/mine"}) == {
        "PATH": "/mine", "SLURM_CONF": "/etc/slurm.conf", "SLURM_NTASKS": "7", "SBATCH_ACCOUNT": "x"
    }  # fmt: skip
    inside = surroundings(text, {**own, "SLURM_JOB_ID": "5", "SLURM_MEM_PER_CPU": "1"}, {})
    assert inside == {"PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "SBATCH_ACCOUNT": "x"}


def test_answers_of_squeue_are_understood() -> None:
    answer = "7|RUNNING|n1|None\n8|PENDING||ReqNodeNotAvail, UnavailableNodes:n[1-4]\n9|CANCELLED by 0|n2|a|b\njunk\n"
    assert states(answer) == {
        "7": SlurmState("RUNNING", "None", "n1"),
        "8": SlurmState("PENDING", "ReqNodeNotAvail, UnavailableNodes:n[1-4]", ""),
        "9": SlurmState("CANCELLED by 0", "a|b", "n2"),
    }


def test_answers_of_scontrol_and_sacct_are_understood() -> None:
    line = "JobId=5 JobName=x SlurmState=FAILED Reason=NonZeroExitCode Dep=(null) ExitCode=71:0 A=b NodeList=n3 B=1 "
    assert described(line) == SlurmState("FAILED", "NonZeroExitCode", "n3", "71:0")
    assert described("JobId=5 SlurmState=PENDING Reason=Priority X=1 NodeList=(null) Y=2 ") == SlurmState(
        "PENDING", "Priority", ""
    )
    assert described("slurm_load_jobs error: Invalid job id specified") is None
    assert recorded("CANCELLED by 1000|None assigned|0:15\nmore") == SlurmState("CANCELLED", "", "", "0:15")


@pytest.mark.parametrize(
    ("printed", "meant"),
    [
        (
            "sbatch: error: Batch job submission failed: Invalid account\n",
            "Batch job submission failed: Invalid account",
        ),
        ("allocation failure: Invalid partition\n", "allocation failure: Invalid partition"),
        ("\n", "no reason given"),
        ("sbatch: error: one\nsbatch: error: two", "one; two"),
    ],
)
def test_complaints_are_told_without_the_programs_name(printed: str, meant: str) -> None:
    assert complaint(printed) == meant


def test_reasons_are_told_in_words_and_unknown_ones_as_they_are() -> None:
    assert waits("Resources") == "waits for free nodes (Resources)"
    assert waits("None") == "Slurm has not looked at it yet"
    assert waits("SomethingNew") == "SomethingNew"
    assert "UnavailableNodes:n1" in waits("ReqNodeNotAvail, UnavailableNodes:n1")
    assert never("Resources") == never("") == never("SomethingNew") == ""
    assert all(never(reason) for reason in NEVER)


@pytest.mark.parametrize(
    ("end", "log", "cause", "words"),
    [
        (
            SlurmState("OUT_OF_MEMORY", "", "n1", "0:125"),
            "",
            Loss.OUT_OF_MEMORY,
            "job 7 on n1 used more memory than it asked for (20 GiB)",
        ),
        (
            SlurmState("COMPLETING", "OutOfMemory", "n1", "0:125"),
            "",
            Loss.OUT_OF_MEMORY,
            "job 7 on n1 used more memory",
        ),
        (SlurmState("COMPLETING", "TimeLimit", "n1"), "", Loss.WALLTIME, "reached its walltime"),
        (SlurmState("COMPLETING", "None", "n1", "71:0"), "", Loss.WORKER_LOST, "interfaces of this machine"),
        (SlurmState("TIMEOUT"), "", Loss.WALLTIME, "reached its walltime of 04:00:00"),
        (SlurmState("NODE_FAIL", "", "n1"), "", Loss.NODE_LOST, "the node failed"),
        (SlurmState("PREEMPTED"), "", Loss.PREEMPTED, "was preempted"),
        (SlurmState("CANCELLED"), "", Loss.PREEMPTED, "was cancelled"),
        (SlurmState("COMPLETED"), "", Loss.PREEMPTED, "left after notice"),
        (
            SlurmState("FAILED", "", "n1", "0:9"),
            "slurmstepd-n1: error: Job 7 exceeded memory limit (200 > 100), being killed\n",
            Loss.OUT_OF_MEMORY,
            "used more memory",
        ),
        (
            SlurmState("FAILED", "", "n1", "9:0"),
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.\n",
            Loss.OUT_OF_MEMORY,
            "used more memory",
        ),
        (SlurmState("FAILED", "", "n1", "0:53"), "", Loss.CANNOT_START, "the node cannot write"),
        (
            SlurmState("FAILED", "", "n1", f"{CANNOT_CONNECT}:0"),
            "scalable worker: cannot reach the scheduler at tls://a:1: connection refused\n",
            Loss.WORKER_LOST,
            "cannot reach the scheduler at tls://a:1: connection refused; interfaces of this machine:",
        ),
        (
            SlurmState("FAILED", "", "n1", f"{CANNOT_START}:0"),
            "noise\nscalable worker: cannot start: no\n",
            Loss.CANNOT_START,
            "cannot start: no",
        ),
        (
            SlurmState("FAILED", "", "n1", f"{CANNOT_READ}:0"),
            "scalable worker: closed\nscalable worker: cannot read x\n",
            Loss.CANNOT_START,
            "cannot read x",
        ),
        (
            SlurmState("FAILED", "", "n1", "127:0"),
            "/var/spool/slurm_script: line 9: /opt/python: No such file or directory\n",
            Loss.CANNOT_START,
            "/opt/python: No such file",
        ),
        (
            SlurmState("FAILED", "", "n1", "0:11"),
            "crash\n",
            Loss.WORKER_LOST,
            "ended FAILED with exit code 0:11: crash",
        ),
        (None, "last words\n", Loss.WORKER_LOST, "Slurm has forgotten job 7; its log says: last words"),
    ],
)
def test_the_end_of_a_job_is_judged(tmp_path: Path, end: SlurmState | None, log: str, cause: Loss, words: str) -> None:
    file = tmp_path / "log"
    file.write_text(log)
    fate = judge("job 7", file, end, "04:00:00", Memory.parse("20GiB"))
    assert (fate.cause, words in fate.detail) == (cause, True), fate


def test_a_huge_log_is_read_at_its_end_only(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("wb") as out:
        out.truncate(50 * 2**30)
        out.seek(0, 2)
        out.write(b"\nslurmstepd-n1: error: Job 7 exceeded memory limit\n")
    assert judge("job 7", file, SlurmState("FAILED", "", "n1", "0:9")).cause is Loss.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("login1.cluster.example", "tls://login1.cluster.example:8786"),
        ("login1.cluster.example:9000", "tls://login1.cluster.example:9000"),
        ("tls://10.1.2.3:9000", "tls://10.1.2.3:9000"),
        ("tcp://10.1.2.3", "tls://10.1.2.3:8786"),
    ],
)
def test_a_contact_address_is_completed_with_the_schedulers_own_port(written: str, meant: str) -> None:
    assert contact(written, "tls://192.168.0.1:8786") == meant


def test_what_is_asked_at_one_moment_is_asked_together() -> None:
    async def scenario() -> tuple[list[list[str]], list[Mapping[str, int]]]:
        calls: list[list[str]] = []

        async def ask(wanted: list[str]) -> dict[str, int]:
            calls.append(wanted)
            await asyncio.sleep(0.01)
            return {one: len(calls) for one in wanted}

        together = Together(ask)
        first = await asyncio.gather(*(together([str(number)]) for number in range(3)))
        return calls, [*first, await together(["9"])]

    calls, answers = asyncio.run(scenario())
    assert calls == [["0", "1", "2"], ["9"]]
    assert answers == [{"0": 1, "1": 1, "2": 1}] * 3 + [{"9": 2}]
