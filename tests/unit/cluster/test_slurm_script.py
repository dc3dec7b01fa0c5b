"""What is written for Slurm and what is understood of its answers, without a Slurm."""

# ruff: noqa: E501 - tables are read line by line
from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.cluster.base import BatchOptions, WorkerTemplate
from scalable.cluster.network import contact
from scalable.cluster.slurm.commands import (
    NEVER,
    BatchedQuestion,
    SlurmState,
    complaint,
    described,
    never,
    recorded,
    smallest_node,
    states,
    submit_limit,
    waits,
)
from scalable.cluster.slurm.jobs import ended_by, judge, step_end
from scalable.cluster.slurm.script import (
    SlurmSite,
    Step,
    ending_of,
    environment_of,
    graphics,
    image,
    job_script,
    mount,
    surroundings,
)
from scalable.engine.events import Loss
from scalable.errors import UsageError
from scalable.machine_hours import HeldResources
from scalable.mpi import MpiSize
from scalable.planning.allocations import Allocations
from scalable.quantities import Memory
from scalable.worker.options import CANNOT_CONNECT, CANNOT_READ, CANNOT_START, WorkerOptions
from tests.helpers.cluster.slurm_script import script

FAULT = """Fatal Python error: Segmentation fault

Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "<task>", line 47 in neighbour-2

Current thread 0x00007f0000000002 (most recent call first):
  File "/home/me/project/code.py", line 7 in model
  File "<task>", line 47 in model-1

Thread 0x00007f0000000003 (most recent call first):
  File "/usr/lib/python3.11/selectors.py", line 468 in select
"""
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


def test_a_worker_of_several_nodes_asks_for_all_its_processes() -> None:
    found = directives(script(SlurmSite(), cpus=64, memory=Memory.parse("8GiB"), program=MpiSize(4, 32, 2)))
    asked = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mem")
    assert [found[name] for name in asked] == ["4", "128", "32", "2", "8192M"]


def test_a_worker_of_several_nodes_shares_its_job_with_no_other() -> None:
    text = script(SlurmSite(walltime="01:00:00", allocations=Allocations(4, 2)), program=MpiSize(2, 2))
    assert directives(text)["signal"].startswith("B:TERM") and "no-kill" not in directives(text)
    assert text.splitlines()[-1].startswith("exec ")


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
    answer = (
        "7|RUNNING|n[1-2]|2026-11-17T10:00:00|2026-11-17T12:00:00|96|2|gres/gpu:a100:4|None\n"
        "8|PENDING||2026-11-17T11:00:00|N/A|4|1|N/A|ReqNodeNotAvail, UnavailableNodes:n[1-4]\n"
        "9|CANCELLED by 0|n2|N/A|2026-11-17T10:00:05|1|1|N/A|a|b\n"
        "junk\n"
    )
    started = time.mktime((2026, 11, 17, 10, 0, 0, 0, 0, -1))
    held = HeldResources(cores=96, nodes=2, gpus=8)
    assert states(answer) == {
        "7": SlurmState("RUNNING", "None", "n[1-2]", started=started, ends=started + 7200, held=held),
        "8": SlurmState("PENDING", "ReqNodeNotAvail, UnavailableNodes:n[1-4]", ""),
        "9": SlurmState("CANCELLED by 0", "a|b", "n2", ends=started + 5, held=HeldResources(cores=1, nodes=1)),
    }


def test_answers_of_scontrol_and_sacct_are_understood() -> None:
    line = "JobId=5 JobName=x JobState=FAILED Reason=NonZeroExitCode Dep=(null) ExitCode=71:0 A=b NodeList=n3 B=1 "
    assert described(line) == SlurmState("FAILED", "NonZeroExitCode", "n3", "71:0")
    assert described("JobId=5 JobState=PENDING Reason=Priority X=1 NodeList=(null) Y=2 ") == SlurmState(
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
            f"scalable worker: connected to tls://a:1 as b\n{FAULT}",
            Loss.WORKER_CRASHED,
            "crashed with SIGSEGV (segmentation fault) in model (project/code.py:7), task model-1",
        ),
        (
            SlurmState("FAILED", "", "n1", "139:0"),
            "scalable worker: connected to tls://a:1 as b\n",
            Loss.WORKER_CRASHED,
            "job 7 on n1 crashed with SIGSEGV (segmentation fault)",
        ),
        (
            SlurmState("FAILED", "", "n1", "0:9"),
            "scalable worker: connected to tls://a:1 as b\n",
            Loss.WORKER_LOST,
            "job 7 on n1 was ended by SIGKILL (killed); its log ends: connected to tls://a:1 as b",
        ),
        (
            SlurmState("FAILED", "", "n1", f"{CANNOT_START}:0"),
            "scalable set-up 1/1: modules: module load gcc/99\nunknown module\n"
            "scalable worker: cannot start: set-up step 1 of 1 failed with exit status 1: modules: module load gcc/99\n",
            Loss.CANNOT_START,
            "set-up step 1 of 1 failed with exit status 1: modules: module load gcc/99; it printed: unknown module",
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

        together = BatchedQuestion(ask)
        first = await asyncio.gather(*(together([str(number)]) for number in range(3)))
        return calls, [*first, await together(["9"])]

    calls, answers = asyncio.run(scenario())
    assert calls == [["0", "1", "2"], ["9"]]
    assert answers == [{"0": 1, "1": 1, "2": 1}] * 3 + [{"9": 2}]


def test_a_job_without_a_set_up_only_starts_its_worker() -> None:
    text = script()
    assert "__scalable" not in text
    assert text.splitlines()[-1].startswith("exec ")


def test_modules_environment_shell_lines_and_script_come_in_this_order_the_targets_first() -> None:
    site = SlurmSite(modules=("gcc/12", "hdf5"), conda="base", setup="export A=1")
    text = script(site, modules=("cuda", "gcc/12"), conda="model", setup="export B=2", preload_script="pre.sh")
    steps = [line for line in text.splitlines() if line.startswith("__scalable_begin ")]
    assert [shlex.split(line)[1:] for line in steps] == [
        ["1", "7", "modules: module load gcc/12"],
        ["2", "7", "modules: module load hdf5"],
        ["3", "7", "modules: module load cuda"],
        ["4", "7", "conda: conda activate model"],
        ["5", "7", "setup: export A=1"],
        ["6", "7", "setup: export B=2"],
        ["7", "7", "preload_script: source pre.sh"],
    ]
    assert text.splitlines()[-1].startswith('exec "$SCALABLE_PYTHON" -P -m scalable.worker ')


@pytest.mark.parametrize(
    ("site", "template", "first"),
    [
        (SlurmSite(setup="true", python="/opt/python"), {}, "exec /opt/python "),
        (SlurmSite(setup="true"), {"image": "model.sif"}, "exec apptainer "),
    ],
)
def test_a_python_that_is_written_or_in_an_image_starts_the_worker_whatever_is_activated(
    site: SlurmSite, template: dict[str, str], first: str
) -> None:
    text = script(site, **template)
    assert text.splitlines()[-1].startswith(first)
    assert "SCALABLE_PYTHON" not in text


@pytest.mark.parametrize(
    ("exit_code", "number"), [("0:11", 11), ("139:0", 11), ("0:125", 0), ("1:0", 0), ("0:0", 0), ("72:0", 0), ("", 0)]
)
def test_the_signal_that_ended_a_job_is_known_by_its_exit_code(exit_code: str, number: int) -> None:
    assert ended_by(exit_code) == number


def shared_script(allocations: Allocations, *kinds: tuple[str, int, dict[str, str]]) -> str:
    """Return the script of a job with a worker of each kind (tag, node, variables)."""
    steps = [
        Step(
            WorkerTemplate(tag, cpus=2, memory=Memory.parse("1GiB"), env=env),
            WorkerOptions("tls://10.0.0.1:8786", f"{tag}-{place}", {tag: 1.0}),
            Path(f"/logs/{tag}-{place}.log"),
            node,
        )
        for place, (tag, node, env) in enumerate(kinds)
    ]
    site = SlurmSite(walltime="04:00:00", allocations=allocations)
    return job_script(site, steps, "a+b-1234", Path("/logs/a-0.job.out"), "a-0")


def test_a_job_of_several_workers_asks_for_what_its_fullest_node_holds_and_starts_each_as_a_step() -> None:
    text = shared_script(Allocations(workers=3, nodes=2), ("a", 0, {}), ("a", 0, {}), ("a", 1, {}))
    found = directives(text)
    asked = {name: found[name] for name in ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mem", "signal")}
    assert asked == {
        "nodes": "2", "ntasks": "2", "ntasks-per-node": "1", "cpus-per-task": "4", "mem": "2048M", "signal": "TERM@30"
    }  # fmt: skip
    assert "no-kill" in found and "no-requeue" in found and "exclusive" not in found
    starts = [shlex.split(line) for line in text.splitlines() if line.startswith("start kind_")]
    assert [words[2:6] for words in starts] == [
        [node, f"/logs/a-{place}.log", f"--job-name=a-{place}", "--cpus-per-task=2"]
        for place, node in enumerate(("0", "0", "1"))
    ]
    assert all("--mem=1024M" in words and words[-1] == "&" for words in starts)


def test_kinds_of_one_job_have_their_own_variables_whose_values_are_not_in_the_script() -> None:
    text = shared_script(Allocations(exclusive=True), ("a", 0, {"KEY": "hunter2"}), ("b", 0, {"KEY": "swordfish"}))
    assert "exclusive" in directives(text)
    assert "hunter2" not in text and "swordfish" not in text
    assert 'export KEY="$SCALABLE_0_KEY"' in text and 'export KEY="$SCALABLE_1_KEY"' in text
    kinds = [
        Step(WorkerTemplate(tag, env={"KEY": value}), WorkerOptions("", f"{tag}-0", {}), Path(f"/logs/{tag}.log"))
        for tag, value in (("a", "hunter2"), ("b", "swordfish"))
    ]
    given = environment_of(kinds)
    assert (given["SCALABLE_0_KEY"], given["SCALABLE_1_KEY"]) == ("hunter2", "swordfish")
    assert environment_of(kinds[:1])["KEY"] == "hunter2"


def test_gpus_of_a_job_are_counted_by_type() -> None:
    cards = [WorkerTemplate("a", gpus=1, gpu_type="a100"), WorkerTemplate("b", gpus=2, gpu_type="a100")]
    assert graphics([*cards, WorkerTemplate("c", gpus=1)]) == "gpu:a100:3,gpu:1"
    assert graphics([WorkerTemplate("d")]) == ""


def test_a_component_overrules_the_words_of_its_target() -> None:
    site = SlurmSite(queue="long", account="LAB", qos="high", constraint="intel", reservation="course")
    own = BatchOptions(partition="gpu", qos="low", walltime="01:00:00")
    found = directives(script(site, batch=own))
    names = ("partition", "account", "qos", "constraint", "reservation", "time")
    assert [found[name] for name in names] == ["gpu", "LAB", "low", "intel", "course", "01:00:00"]


def test_a_requeue_is_not_handed_on() -> None:
    assert "requeue" not in directives(script(SlurmSite(sbatch=("--requeue", "--nice=5"))))


SINFO = "batch*|32|128000|(null)|intel,ib\nbatch*|16+|64000|gpu:a100:4(S:0-1)|amd,ib\nlong|8|32000|(null)|(null)\n"


@pytest.mark.parametrize(
    ("partition", "constraint", "size"),
    [
        (None, None, (16, 64000, 0)), ("batch", "intel", (32, 128000, 0)), ("batch", "amd&ib", (16, 64000, 4)),
        ("batch", "intel|amd", (16, 64000, 0)), ("long", None, (8, 32000, 0)), ("gone", None, None),
        ("long", "ib", None),
    ],
)  # fmt: skip
def test_the_smallest_node_of_a_partition_is_what_jobs_are_filled_for(
    partition: str | None, constraint: str | None, size: tuple[int, int, int] | None
) -> None:
    found = smallest_node(SINFO, partition, constraint)
    assert (found and (found.cpu.cores, found.memory.bytes // 2**20, found.gpus)) == size


@pytest.mark.parametrize(
    ("err", "limit"),
    [
        ("sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates", "AssocMaxSubmitJobLimit"),
        ("sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Job violates accounting/QOS policy", "QOSMaxSubmitJobPerUserLimit"),
        ("sbatch: error: AssocGrpSubmitJobsLimit", "AssocGrpSubmitJobsLimit"),
        ("sbatch: error: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", "job submit limit"),
        ("sbatch: error: QOSMaxWallDurationPerJobLimit\nsbatch: error: Job violates accounting/QOS policy (job submit limit, user's", None),
        ("sbatch: error: invalid partition specified: nowhere", None),
    ],
)  # fmt: skip
def test_a_limit_that_passes_is_told_from_one_that_does_not(err: str, limit: str | None) -> None:
    assert submit_limit(err) == limit


def test_the_end_of_a_step_is_read_from_its_note_and_its_log(tmp_path: Path) -> None:
    log = tmp_path / "a-0.log"
    assert step_end(log) is None
    for note, text, state, code in (
        ("0 n1", "scalable worker: closed", "COMPLETED", "0:0"),
        ("0 n1", "srun: error: Node failure on n1", "NODE_FAIL", "0:0"),
        ("137 n1", "slurmstepd-n1: error: StepId=1.1 exceeded memory limit (4 > 3), being killed", "OUT_OF_MEMORY", "0:9"),
        ("143 n1", "slurmstepd: error: *** STEP 1.1 ON n1 CANCELLED AT 2026-01-01 DUE TO TIME LIMIT ***", "TIMEOUT", "0:15"),
        ("143 n1", "slurmstepd: error: *** STEP 1.1 ON n1 CANCELLED AT 2026-01-01 ***", "CANCELLED", "0:15"),
        ("72 n1", "scalable worker: no licence", "FAILED", "72:0"),
    ):  # fmt: skip
        log.write_text(text)
        ending_of(log).write_text(note)
        assert step_end(log) == SlurmState(state, "", "n1", code)
    ending_of(log).write_text("")
    assert step_end(log) is None
