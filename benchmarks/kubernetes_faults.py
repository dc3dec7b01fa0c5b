"""Provokes every fault that users of a Kubernetes cluster meet, and prints what they see and how long it takes.

``python -m benchmarks.kubernetes_faults`` writes benchmarks/results/kubernetes_faults.json. It starts a private cluster
around the binaries in ``$KUBEBUILDER_ASSETS`` or ``PATH``. The seconds are those from the fault to its end: until the
caller has the error, until lost work runs again, or until nothing of a killed program is left.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.helpers.kubernetes.helpers import SMALL, Namespace, Project, over, without
from tests.helpers.kubernetes.pools import POOLS
from tests.helpers.kubernetes.programs import Program
from tests.helpers.kubernetes.work import at_work, hoarding, with_hungry_task, with_long_task
from tests.helpers.waiting import eventually
from tests.tools.kube import running

from benchmarks.faulting import WITHIN_S, Seen, provoked, raised, write

Fault = Callable[[Project], Seen]


def no_right(project: Project) -> Seen:
    project.kube.allow(without("create", "pods"))
    return refused(project)


def used_quota(project: Project) -> Seen:
    project.kube.create("ResourceQuota", "few", spec={"hard": {"pods": "2"}})
    return refused(project, max_workers=3)


def small_quota(project: Project) -> Seen:
    project.kube.create("ResourceQuota", "tiny", spec={"hard": {"limits.memory": "600Mi"}})
    return refused(project)


def other_namespace(project: Project) -> Seen:
    return refused(project, namespace="elsewhere")


def unknown_account(project: Project) -> Seen:
    return refused(project, worker_service_account="nobody")


def no_image(project: Project) -> Seen:
    return refused(project, image="nowhere.invalid/scalable:1")


def no_worker_image(project: Project) -> Seen:
    components = {"demeter": {**SMALL, "image": "nowhere.invalid/scalable:1"}}
    with project.session(components=components) as client:
        return raised(lambda: client.submit(sum, [1, 2], tag="demeter").result(WITHIN_S))


def no_room(project: Project) -> Seen:
    with project.session(components={"demeter": {**SMALL, "cpus": 99}}):
        began = time.monotonic()
        return Seen(f"scalable status: waits: {pending(project, 'Insufficient')}", time.monotonic() - began)


def no_node_yet(project: Project) -> Seen:
    with project.session(project.target("burst"), components={"demeter": SMALL}) as client:
        began = time.monotonic()
        reason = pending(project, "autoscaler")
        eventually(lambda: client.worker_count() == 1, lambda: "the worker", WITHIN_S)
        return Seen(f"scalable status: waits: {reason}; then it runs", time.monotonic() - began)


def over_memory(project: Project) -> Seen:
    policies = {"retry": {"times": 0}}
    session = project.session(project.target(max_workers=1), components={"demeter": SMALL}, policies=policies)
    with session as client:
        eventually(lambda: client.worker_count() == 1, lambda: "the worker", WITHIN_S)
        return raised(lambda: client.submit(hoarding(), tag="demeter").result(WITHIN_S))


def over_memory_with_a_larger_kind(project: Project) -> Seen:
    session = with_hungry_task(project)
    with session as client:
        eventually(lambda: client.worker_count() >= 1, lambda: "a worker", WITHIN_S)
        began = time.monotonic()
        session.run_tasks()
        took = time.monotonic() - began
    ends = [f"{record['outcome']} on {record['tag']}" for record in project.journal("attempt-ended")]
    return Seen(f"{', then '.join(ends)}; the retry is in the report", took)


def evicted(project: Project) -> Seen:
    return moved(project, lambda pod: project.kube.admin.evict(pod, project.kube.name))


def deleted(project: Project) -> Seen:
    return moved(project, lambda pod: project.kube.admin.delete("Pod", pod, project.kube.name, gracePeriodSeconds=0))


def crashed(project: Project) -> Seen:
    def crash(pod: str) -> None:
        project.kube.crash(project.kube.workers()[pod]["spec"]["nodeName"])

    seen = moved(project, crash, "fragile")
    project.kube.restore()
    return seen


def no_relay(project: Project) -> Seen:
    def kill(pod: str) -> None:
        (relay,) = project.kube.pods("scalable/part=relay")
        project.kube.admin.delete("Pod", relay["metadata"]["name"], project.kube.name, gracePeriodSeconds=0)

    return moved(project, kill)


def killed(project: Project) -> Seen:
    return ended(project, lambda program: program.process.kill())


def killed_with_reaper(project: Project) -> Seen:
    def kill(program: Program) -> None:
        os.kill(program.reaper, signal.SIGKILL)
        program.process.kill()

    return ended(project, kill, running_only=True)


def interrupted(project: Project) -> Seen:
    return ended(project, lambda program: os.killpg(program.process.pid, signal.SIGINT))


FAULTS: dict[str, Fault] = {
    "no right to create pods": no_right,
    "quota used up": used_quota,
    "quota smaller than one worker": small_quota,
    "another's namespace": other_namespace,
    "service account missing": unknown_account,
    "image cannot be pulled": no_image,
    "a component's image cannot be pulled": no_worker_image,
    "no node is large enough": no_room,
    "pool at zero nodes (2 s until one comes)": no_node_yet,
    "plain task over the worker's memory": over_memory,
    "run over its memory, larger kind there": over_memory_with_a_larger_kind,
    "pod evicted, as kubectl drain does (20 s grace)": evicted,
    "pod deleted by hand, without grace": deleted,
    "node crashes (missed after 6 s)": crashed,
    "relay's pod deleted": no_relay,
    "driver killed (-9), 2 busy workers": killed,
    "driver and reaper killed (-9), 2 busy workers": killed_with_reaper,
    "Ctrl-C, 2 busy workers": interrupted,
}


def refused(project: Project, **target: Any) -> Seen:
    session = project.session(project.target(**target), components={"demeter": SMALL})
    try:
        return raised(session.start)
    finally:
        session.close()


def pending(project: Project, word: str) -> str:
    """The first reason with a word in it that a worker waited for."""

    def reasons() -> list[str]:
        return [record["reason"] for record in project.journal("worker-pending") if word in record["reason"]]

    eventually(reasons, lambda: f"a reason with {word}", WITHIN_S)
    return reasons()[0]


def moved(project: Project, fault: Callable[[str], object], pool: str = "steady") -> Seen:
    """The time from the fault until its task runs in another pod."""
    session = with_long_task(project, pool)
    with session:
        with at_work(project, session) as pod:
            began = time.monotonic()
            fault(pod)
            eventually(lambda: len(project.running()) > 1, lambda: "the task to run again", WITHIN_S)
            took = time.monotonic() - began
        eventually(lambda: gone(project), lambda: "the end of the worker to be told", WITHIN_S)
        told = gone(project)[0]
    return Seen(f"{told}; the task goes on in another pod", took)


def gone(project: Project) -> list[str]:
    """Why workers are gone, those that had notice and those that had none."""
    lost = [f"{record['cause']}: {record['detail']}" for record in project.journal("worker-lost")]
    return lost + [record["reason"] for record in project.journal("worker-removed")]


def ended(project: Project, end: Callable[[Program], None], *, running_only: bool = False) -> Seen:
    """The time until no pod runs and, unless nobody is left who could do that, no object of the run is there."""
    kube = project.kube

    def left() -> list[str]:
        return [pod["metadata"]["name"] for pod in kube.pods() if not over(pod)] if running_only else kube.left()

    with Program(project) as program:
        began = time.monotonic()
        end(program)
        eventually(lambda: not left(), lambda: f"{left()} to be gone", WITHIN_S)
        took = time.monotonic() - began
        program.over()
    what = (
        "no pod runs; the ended pods and their parent stay until it is deleted" if running_only else "nothing is left"
    )
    return Seen(what, took)


def main() -> None:
    chosen = {name: fault for name, fault in FAULTS.items() if all(word in name for word in sys.argv[1:])}
    own = os.environ.get("KUBECONFIG")
    with tempfile.TemporaryDirectory() as top, running(Path(top) / "cluster", POOLS) as cluster:

        def provoke(fault: Fault, folder: Path) -> Seen:
            with Namespace.made(cluster, Path(top)) as kube:
                os.environ["KUBECONFIG"] = str(kube.kubeconfig)
                seen = fault(Project(folder, kube))
                return Seen(seen.text.replace(kube.name, "lab"), seen.seconds)

        version = cluster.admin.ask("GET", "/version")["gitVersion"]
        rows = provoked(chosen, provoke, Path(top))
    os.environ.pop("KUBECONFIG") if own is None else os.environ.update(KUBECONFIG=own)
    if len(chosen) == len(FAULTS):
        write("kubernetes_faults.json", rows, kubernetes=version)


if __name__ == "__main__":
    main()
