"""This machine against what the workers of a local target take, and against what any run opens."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from scalable.doctor.checks import Case, fail, ok, warn
from scalable.findings import Finding
from scalable.manifest.targets import LocalTarget
from scalable.quantities import Memory
from scalable.session.machine import this_machine
from scalable.wording import plural
from scalable.worker.runner.environment import THREAD_VARIABLES

FILES_OF_SCHEDULER = 200
BARE_WORKER = Memory(100 * 1024**2)  # Python with Dask takes 75 MiB before it runs anything
FILES_A_WORKER = 10  # connections and logs, with some to spare
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def checks(case: Case) -> Iterator[Finding]:
    if isinstance(case.spec.target, LocalTarget) and case.demands:
        yield cpus(case)
        yield memory(case, case.spec.target)
        yield from threads(case, case.spec.target)
    most = case.spec.target.adaptive.maximum if case.spec.target.adaptive else 0
    yield open_files(max(most, case.most_workers))


def cpus(case: Case) -> Finding:
    wanted = max(sum(count * case.parts[tag].cpus for tag, count in each.items()) for each in case.demands)
    there = this_machine().cpu.cores
    text = f"{wanted} for all workers, {there:g} here"
    if wanted > there:
        return warn("CPUs", f"{text}: workers share them and get slower", "lower max_workers, or cpus of components")
    return ok("CPUs", text)


def memory(case: Case, target: LocalTarget) -> Finding:
    limits = {tag: part.memory for tag, part in case.parts.items()}
    sizes = {tag: limit.bytes if limit is not None else 0 for tag, limit in limits.items()}
    wanted = max(sum(count * sizes[tag] for tag, count in each.items()) for each in case.demands)
    there = usable_memory()
    unlimited = [tag for tag, limit in limits.items() if limit is None]
    text = f"{Memory(wanted)} for all workers, {there} here"
    small = {tag: limit for tag, limit in limits.items() if limit is not None and limit.bytes < BARE_WORKER.bytes}
    if small and target.processes:
        small_limits = ", ".join(f"{tag} may use {limit}" for tag, limit in small.items())
        needs = f"a worker needs nearly {BARE_WORKER} before it runs anything"
        return fail(
            "memory", f"{small_limits}, and {needs}", f"write e.g. {case.key(next(iter(small)))}.memory: 500MiB"
        )
    if wanted > there.bytes:
        remedy = "lower max_workers, or memory of components and profiles"
        return warn("memory", f"{text}: the kernel kills some if all use what they may", remedy)
    if unlimited:
        return ok("memory", f"{text}; {', '.join(unlimited)} without a limit")
    return ok("memory", text)


def usable_memory() -> Memory:
    """Return what is built in, or less where a container sets a limit."""
    sizes = [this_machine().memory.bytes]
    for path in map(Path, CGROUP_LIMITS):
        try:
            sizes.append(int(path.read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return Memory(min(sizes))


def threads(case: Case, target: LocalTarget) -> Iterator[Finding]:
    """Thread pools of numerical libraries multiply with workers."""
    greedy = {
        tag: f"{name}={value}"
        for tag, part in case.parts.items()
        for name, value in part.env.items()
        if name in THREAD_VARIABLES and value.isdecimal() and int(value) * part.slots > part.cpus
    }
    if greedy:
        settings = ", ".join(f"{tag} sets {setting}" for tag, setting in greedy.items())
        yield warn("threads", f"more threads than CPUs: {settings}", "leave it out; workers get a number that fits")
    elif target.processes:
        yield ok("threads", "every worker gets as many as it has CPUs")
    elif case.most_workers > 1 and not any(name in os.environ for name in THREAD_VARIABLES):
        text = "with processes: false all workers share the thread pools of one process"
        yield warn("threads", f"{text}, each as large as the machine", "OMP_NUM_THREADS=1, or write processes: true")


def open_files(workers: int) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FILES_OF_SCHEDULER + FILES_A_WORKER * workers
    text = f"{soft} allowed, {plural(workers, 'worker')} may need {needed}"
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return ok("open-files", text)
    if hard == resource.RLIM_INFINITY or hard >= needed:
        return fail("open-files", text, f"ulimit -n {needed}")
    return fail("open-files", f"{text}, and {hard} is the most", "ask for a higher limit, or lower max_workers")
