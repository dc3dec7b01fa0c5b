"""Provokes every fault that Slurm users meet once, on a private Slurm, and prints what they see and how long it takes.

``python -m benchmarks.slurm_faults`` writes benchmarks/results/slurm_faults.json. The seconds are those from the fault
to its end: until the caller has the error, or until lost work runs again, or until nothing of a killed program is left.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.helpers.slurm.detached import Lab, finished
from tests.helpers.slurm.helpers import (
    Made,
    closed_port,
    left_by,
    limited_sbatch,
    made,
    path_without,
    silent_port,
    workers_of,
)
from tests.helpers.slurm.mpi import MpiProject
from tests.helpers.slurm.programs import Program
from tests.helpers.slurm.work import crashing, hoarding, outlasting, unknown_to_nodes, waiting
from tests.helpers.waiting import eventually
from tests.tools import processes
from tests.tools.slurm import MemoryRule, PrivateSlurm, Settings, daemons, running, why_no_cgroup

from benchmarks.faulting import WITHIN_S, Seen, provoked, raised, write
from scalable.observe.drivers import DriverFolder

Fault = Callable[[PrivateSlurm, Path], Seen]

SHARED = {"workers_per_job": 4, "nodes_per_job": 2}


def bad_partition(slurm: PrivateSlurm, folder: Path) -> Seen:
    with made(queue="nowhere") as it:
        return raised(lambda: it.cluster.add_workers(5, "small"))


def too_many_cpus(slurm: PrivateSlurm, folder: Path) -> Seen:
    with made() as it:
        it.cluster.add_container(tag="huge", cpus=99)
        return raised(lambda: it.cluster.add_workers(5, "huge"))


def no_sbatch(slurm: PrivateSlurm, folder: Path) -> Seen:
    path = os.environ["PATH"]
    with made() as it:
        os.environ["PATH"] = path_without("sbatch")
        try:
            return raised(lambda: it.cluster.add_workers(1, "small"))
        finally:
            os.environ["PATH"] = path


def wrong_interface(slurm: PrivateSlurm, folder: Path) -> Seen:
    def start() -> None:
        with made(interface="ib7"):
            pass

    return raised(start)


def missing_image(slurm: PrivateSlurm, folder: Path) -> Seen:
    with made() as it:
        return raised(lambda: it.cluster.add_container(tag="contained", path="demeter.sif"))


def closed_scheduler(slurm: PrivateSlurm, folder: Path) -> Seen:
    with closed_port() as port:
        return unreachable(f"127.0.0.1:{port}")


def silent_scheduler(slurm: PrivateSlurm, folder: Path) -> Seen:
    with silent_port() as port:
        return unreachable(f"127.0.0.1:{port}")


def unreachable(address: str) -> Seen:
    with made(contact_address=address, connect_within=5) as it:
        it.cluster.add_workers(1, "small")
        began = time.monotonic()
        return Seen(it.wait_for("workers-refused", within_s=WITHIN_S)[0]["reason"], time.monotonic() - began)


def other_code(slurm: PrivateSlurm, folder: Path) -> Seen:
    (folder / "model.py").write_text("ANSWER = 42\n")
    with made() as it:
        (folder / "model.py").write_text("ANSWER = 43\n")
        it.cluster.add_workers(1, "small")
        began = time.monotonic()
        return Seen(it.wait_for("workers-refused", within_s=WITHIN_S)[0]["reason"], time.monotonic() - began)


def failed_set_up(slurm: PrivateSlurm, folder: Path) -> Seen:
    with made(setup="export MODEL=/opt/model\ncp $MODEL/settings.nml .") as it:
        it.cluster.add_workers(1, "small")
        began = time.monotonic()
        return Seen(it.wait_for("workers-refused", within_s=WITHIN_S)[0]["reason"], time.monotonic() - began)


def crash_beside_others(slurm: PrivateSlurm, folder: Path) -> Seen:
    """Of three tasks in the slots of one worker one crashes; no retry is allowed."""
    places = [folder / name for name in ("one", "two")]
    for place in places:
        place.mkdir()
    with made(allowed_failures=0) as it:
        it.cluster.add_container(tag="wide", cpus=2, memory="800M", slots=3)
        it.cluster.add_workers(1, "wide")
        others = it.client.map(waiting(), [place / "told" for place in places], tag="wide")
        eventually(lambda: len(list(folder.glob("*/running-*"))) == len(places), lambda: "tasks to run", WITHIN_S)
        seen = raised(lambda: it.client.submit(crashing(), tag="wide").result(WITHIN_S))
        for place in places:
            (place / "told").touch()
        assert it.client.gather(others) == ["told", "told"]
        return Seen(f"{seen.text}; its neighbours run again at no retry's cost", seen.seconds)


def unknown_module(slurm: PrivateSlurm, folder: Path) -> Seen:
    with made(allowed_failures=0) as it:
        it.cluster.add_workers(1, "small")
        it.cluster.wait_until({"small": 1}, WITHIN_S)
        return raised(lambda: it.client.submit(unknown_to_nodes(), tag="small").result(WITHIN_S))


def out_of_memory(slurm: PrivateSlurm, folder: Path) -> Seen:
    with made(allowed_failures=0) as it:
        it.cluster.add_workers(1, "small")
        it.cluster.wait_until({"small": 1}, WITHIN_S)
        return raised(lambda: it.client.submit(hoarding(), tag="small").result(WITHIN_S))


def out_of_memory_by_kernel(slurm: PrivateSlurm, folder: Path) -> Seen:
    if reason := why_no_cgroup():
        return Seen(f"not measured: {reason}", None)
    settings = Settings(nodes=1, memory=MemoryRule.CGROUP, prefix="kernel")
    with running(folder / "kernel", settings) as other:
        os.environ |= other.env
        try:
            return out_of_memory(other, folder)
        finally:
            os.environ |= slurm.env


def one_of_several_out_of_memory(slurm: PrivateSlurm, folder: Path) -> Seen:
    with made(**SHARED, allowed_failures=0, replace=False) as it:
        it.cluster.add_workers(4, "small")
        it.cluster.wait_until({"small": 4}, WITHIN_S)
        began = time.monotonic()
        raised(lambda: it.client.submit(hoarding(), tag="small").result(WITHIN_S))
        lost = it.wait_for("worker-lost", within_s=WITHIN_S)[0]
        left = it.cluster.worker_count()
        return Seen(f"{lost['cause']}: {lost['detail']}; {left} workers of the job go on", time.monotonic() - began)


def node_of_several_crashed(slurm: PrivateSlurm, folder: Path) -> Seen:
    """The node that runs the script of a job of two nodes crashes."""
    with made(**SHARED, replace=False) as it:
        it.cluster.add_workers(4, "small")
        it.cluster.wait_until({"small": 4}, WITHIN_S)
        (job,) = set(it.jobs())
        node = slurm.run("squeue", "--noheader", f"--jobs={job}", "--format=%B").strip()
        began = time.monotonic()
        slurm.crash(node)
        it.wait_for("worker-lost", 2, WITHIN_S)
        took = time.monotonic() - began
        assert it.client.submit(sum, [1, 2], tag="small").result(WITHIN_S) == 3
        lost = it.of("worker-lost")
        return Seen(
            f"{len(lost)} × {lost[0]['cause']}; {it.cluster.worker_count()} workers on the other node go on", took
        )


def worker_of_several_died(slurm: PrivateSlurm, folder: Path) -> Seen:
    with made(**SHARED) as it:
        it.cluster.add_workers(4, "small")
        joined = it.wait_for("worker-joined", 4, WITHIN_S)
        began = time.monotonic()
        os.kill(joined[0]["pid"], signal.SIGKILL)
        late = it.wait_for("worker-joined", 5, WITHIN_S)[4]
        took = time.monotonic() - began
        lost = it.of("worker-lost")[0]
        assert late["allocation"] == joined[0]["allocation"]
        return Seen(f"{lost['cause']}: {lost['detail']}; another worker takes its place in {late['allocation']}", took)


def rank_failed(slurm: PrivateSlurm, folder: Path) -> Seen:
    return program_ended(MpiProject(folder), "fail")


def rank_out_of_memory(slurm: PrivateSlurm, folder: Path) -> Seen:
    return program_ended(MpiProject(folder), "grow")


def program_ended(project: MpiProject, what: str) -> Seen:
    """The time from when all four processes of a program run until its task has failed and none of them is left."""
    session = project.session("ranks", what=what)
    with session, ThreadPoolExecutor(1) as pool:
        ended = pool.submit(session.run_tasks)
        eventually(lambda: len(list(project.told.glob("rank-*"))) == 4, lambda: "four ranks", WITHIN_S)
        seen = raised(lambda: ended.result(WITHIN_S))
    assert project.ranks() == []
    return seen


def shell_of_driver_ended(slurm: PrivateSlurm, folder: Path) -> Seen:
    lab = Lab(folder)
    began = time.monotonic()
    driver = lab.detach()
    lab.wait_until("first begins")
    took = time.monotonic() - began
    assert lab.status()["running"] == [driver.run_id]
    lab.go_on()
    finished(driver)
    return Seen("the driver, a batch job, starts its workers and runs all tasks; scalable status finds it", took)


def walltime_of_driver(slurm: PrivateSlurm, folder: Path) -> Seen:
    lab = Lab(folder)
    driver = lab.detach()
    lab.wait_until("first begins")
    slurm.run("scontrol", "update", f"jobid={driver.job}", "timelimit=4")  # less than the grace: the signal is due
    eventually(lambda: driver.facts().get("successor"), lambda: "a successor", WITHIN_S)
    began = time.monotonic()
    lab.go_on()
    lab.wait_until("second")
    took = time.monotonic() - began
    finished(DriverFolder.find(driver.facts()["successor"], folder / ".scalable/runs"))
    assert lab.noted() == ["first begins", "first ends", "second"]
    return Seen("what runs finishes, then a successor goes on with the rest; nothing runs twice", took)


def submit_limit(slurm: PrivateSlurm, folder: Path) -> Seen:
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{limited_sbatch(folder, most=2)}{os.pathsep}{path}"
    try:
        with made() as it:
            began = time.monotonic()
            it.cluster.add_workers(4, "small")
            eventually(lambda: [text for text in reasons(it) if "Limit" in text], lambda: f"{it.told}", WITHIN_S)
            (reason,) = {text for text in reasons(it) if "Limit" in text}
            took = time.monotonic() - began
            it.cluster.wait_until({"small": 2}, WITHIN_S)
            return Seen(f"2 workers work; scalable status says of the others: {reason}", took)
    finally:
        os.environ["PATH"] = path


def reasons(it: Made) -> list[str]:
    return [told["reason"] for told in it.of("worker-pending")]


def cancelled(slurm: PrivateSlurm, folder: Path) -> Seen:
    return moved(folder, lambda it, job: slurm.run("scancel", str(job)))


def node_crashed(slurm: PrivateSlurm, folder: Path) -> Seen:
    return moved(folder, lambda it, job: slurm.crash(slurm.job(job).node))


def node_down(slurm: PrivateSlurm, folder: Path) -> Seen:
    return moved(folder, lambda it, job: slurm.mark_down(slurm.job(job).node))


def walltime_over(slurm: PrivateSlurm, folder: Path) -> Seen:
    def end(it: Made, job: int) -> None:
        slurm.expire(job)  # Slurm looks at limits every half minute; what follows is ours
        eventually(lambda: it.of("worker-leaving") or it.of("worker-lost"), lambda: "the walltime to end", WITHIN_S)

    return moved(folder, end)


def notice(slurm: PrivateSlurm, folder: Path) -> Seen:
    return moved(folder, lambda it, job: slurm.run("scancel", "--batch", "--signal=TERM", str(job)), grace=3)


def longer_than_its_job(slurm: PrivateSlurm, folder: Path) -> Seen:
    """A task that needs more than the shortest walltime; the time from the notice of its job's end."""
    with made(walltime="00:01:00") as it:
        it.cluster.add_workers(1, "small")
        future = it.client.submit(outlasting(), folder / "begun", tag="small")
        it.wait_for("worker-leaving", within_s=2 * WITHIN_S)
        return raised(lambda: future.result(2 * WITHIN_S))


def controller_away(slurm: PrivateSlurm, folder: Path) -> Seen:
    """A worker dies while the controller is away; the time from its return."""
    with work_in_progress(folder) as (it, _):
        processes.end(daemons.running_daemons(slurm.paths, "slurmctld"), 10)
        eventually(it.trouble, lambda: "Slurm to be missed", WITHIN_S)
        trouble = it.trouble()
        os.kill(int(it.of("worker-joined")[0]["pid"]), signal.SIGKILL)
        time.sleep(5)
        daemons.start_controller(slurm.paths, slurm.full_env)
        began = time.monotonic()
        runs_again(folder)
        return Seen(f"a finding: the batch system does not answer: {trouble}", time.monotonic() - began)


def twenty_jobs(slurm: PrivateSlurm, folder: Path) -> Seen:
    with made() as it:
        it.cluster.add_container(tag="wide", cpus=4, memory="400M")
        began = time.monotonic()
        it.cluster.add_workers(20, "wide")
        it.client.gather(it.client.map(lambda x: x * x, range(200), tag="wide"))
        took = time.monotonic() - began
        reason = "waits for free nodes (Resources)"
        eventually(lambda: reason in {told["reason"] for told in it.of("worker-pending")}, lambda: reason, WITHIN_S)
        return Seen(f"all tasks done; scalable status says of the other jobs: {reason}", took)


def close_many(slurm: PrivateSlurm, folder: Path) -> Seen:
    with made() as it:
        it.cluster.add_container(tag="wide", cpus=4, memory="400M")
        it.cluster.add_workers(100, "wide")
        began = time.monotonic()
        it.cluster.close()
        left = {job.state for job in slurm.living()} - {"COMPLETING"}
        return Seen(f"jobs left: {', '.join(left) or 'none'}", time.monotonic() - began)


def killed(slurm: PrivateSlurm, folder: Path) -> Seen:
    return ended(slurm, folder, lambda program: program.process.kill(), workers=2)


def killed_with_queue(slurm: PrivateSlurm, folder: Path) -> Seen:
    return ended(slurm, folder, lambda program: program.process.kill(), workers=20)


def killed_with_reaper(slurm: PrivateSlurm, folder: Path) -> Seen:
    def kill(program: Program) -> None:
        os.kill(program.reaper, signal.SIGKILL)
        program.process.kill()

    return ended(slurm, folder, kill, workers=2)


def interrupted(slurm: PrivateSlurm, folder: Path) -> Seen:
    return ended(slurm, folder, lambda program: os.killpg(program.process.pid, signal.SIGINT), workers=2)


FAULTS: dict[str, Fault] = {
    "sbatch refuses: unknown partition": bad_partition,
    "a size no node has (99 CPUs)": too_many_cpus,
    "sbatch is not installed": no_sbatch,
    "wrong network interface": wrong_interface,
    "image missing": missing_image,
    "scheduler unreachable: connection refused": closed_scheduler,
    "scheduler unreachable: swallowed by a firewall": silent_scheduler,
    "code on the node differs from the driver's": other_code,
    "a task of a module nodes do not have": unknown_module,
    "a line of the set-up fails": failed_set_up,
    "a crash in one of a worker's three slots": crash_beside_others,
    "job over its memory (Slurm measures)": out_of_memory,
    "job over its memory (kernel enforces)": out_of_memory_by_kernel,
    "one of 4 workers in a job over its memory": one_of_several_out_of_memory,
    "node crashes, a job of 4 workers on 2 nodes": node_of_several_crashed,
    "one of 4 workers in a job is killed": worker_of_several_died,
    "one of 4 processes of an MPI program fails": rank_failed,
    "one of 4 processes of an MPI program over its memory": rank_out_of_memory,
    "a limit of submitted jobs is reached": submit_limit,
    "job cancelled by hand": cancelled,
    "node crashes": node_crashed,
    "node set down": node_down,
    "walltime over": walltime_over,
    "notice before the walltime (3 s grace)": notice,
    "a task longer than a walltime of 1 min": longer_than_its_job,
    "controller away, a worker dies meanwhile": controller_away,
    "20 jobs on 4 nodes, 200 tasks": twenty_jobs,
    "closing with 100 jobs": close_many,
    "driver killed (-9), 2 busy workers": killed,
    "driver killed (-9), 20 jobs, 16 of them pending": killed_with_queue,
    "driver and reaper killed (-9), 2 busy workers": killed_with_reaper,
    "Ctrl-C, 2 busy workers": interrupted,
    "run --detach, its login shell is killed": shell_of_driver_ended,
    "run --detach, the driver's walltime ends": walltime_of_driver,
}


@contextmanager
def work_in_progress(folder: Path, **options: Any) -> Iterator[tuple[Made, int]]:
    """A cluster with one worker and a task in it, and the worker's job."""
    with ExitStack() as stack:
        it = stack.enter_context(made(**options))
        it.cluster.add_workers(1, "small")
        future = it.client.submit(waiting(), folder / "told", tag="small")
        eventually(lambda: jobs_seen(folder), lambda: "the task to run", WITHIN_S)
        yield it, jobs_seen(folder)[0]
        (folder / "told").touch()
        assert future.result(WITHIN_S) == "told"


def moved(folder: Path, fault: Callable[[Made, int], Any], **options: Any) -> Seen:
    """The time from the fault until its task runs in another job."""
    with work_in_progress(folder, **options) as (it, job):
        fault(it, job)
        began = time.monotonic()
        runs_again(folder)
        took = time.monotonic() - began
        lost = it.wait_for("worker-lost", within_s=WITHIN_S)[0]
        return Seen(f"{lost['cause']}: {lost['detail']}; the task goes on in another job", took)


def jobs_seen(folder: Path) -> list[int]:
    return sorted(int(file.name.partition("-")[2]) for file in folder.glob("running-*"))


def runs_again(folder: Path) -> None:
    eventually(lambda: len(jobs_seen(folder)) > 1, lambda: "the task to run again", WITHIN_S)


def ended(slurm: PrivateSlurm, folder: Path, end: Callable[[Program], None], workers: int) -> Seen:
    """The time until no job, no worker and no child of a worker is left."""
    program = Program(folder, "time.sleep(300)", workers, min(workers, 4))
    began = time.monotonic()
    end(program)
    while slurm.living() or workers_of(folder) or left_by(program.name):
        assert time.monotonic() - began < WITHIN_S, program.left(slurm)
        time.sleep(0.05)
    took = time.monotonic() - began
    program.process.communicate()
    return Seen("no job, no worker, no process of a task is left", took)


def main() -> None:
    with tempfile.TemporaryDirectory() as top, running(Path(top) / "slurm") as slurm:
        os.environ |= slurm.env

        def provoke(fault: Fault, folder: Path) -> Seen:
            seen = fault(slurm, folder)
            slurm.reset()
            return seen

        version = slurm.run("sbatch", "--version").strip()
        rows = provoked(FAULTS, provoke, Path(top))
    write("slurm_faults.json", rows, slurm=version)


if __name__ == "__main__":
    main()
