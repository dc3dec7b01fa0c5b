"""The protections of runs on a live worker, as the worker itself tells them: one check each."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from scalable import __version__
from scalable.doctor.checks import fail, ok, warn
from scalable.findings import Finding
from scalable.observe.fields import count, mapping, text
from scalable.quantities import Memory
from scalable.wording import plural

SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"
POLICY = "policies: {fork: {policy: deny}}"


def checks(worker: str, protections: Mapping[str, Any]) -> Iterator[Finding]:
    """Check the worker's answer to what its protections are."""
    runner = mapping(protections.get("runner"))
    if not runner:
        remedy = f"scalable logs {quote(worker)}  shows what it says; scalable ops kill {quote(worker)}  replaces it"
        yield fail("runner", f"{worker} has no runner process and could not start one: runs cannot be guarded", remedy)
        return
    slots = plural(count(protections.get("slots")) or 1, "slot")
    text = f"{plural(count(protections.get('runners')) or 1, 'runner')} for {slots}, each a process of its own"
    yield ok("runner", text)
    yield guard(runner)
    yield threads_at_start(runner)
    yield grpc(mapping(runner.get("grpc")))
    yield from pools(mapping(runner.get("threads")), count(protections.get("cpus")) or 1)
    yield memory(protections)
    yield versions(runner)


def guard(runner: Mapping[str, Any]) -> Finding:
    policy = runner.get("guard")
    allowed = [str(module) for module in runner.get("allow") or ()]
    let = f"; forks of {', '.join(allowed)} are let through" if allowed else ""
    if policy == "deny":
        return ok("fork-guard", f"in place: a fork of a process with threads is refused{let}")
    if policy == "warn":
        return warn("fork-guard", f"in place, and only warns: a fork with threads may hang for ever{let}", POLICY)
    if policy == "allow":
        return warn("fork-guard", "off: a fork of a process with threads may hang for ever", POLICY)
    return fail("fork-guard", "not in place: a fork of a process with threads may hang for ever", POLICY)


def threads_at_start(runner: Mapping[str, Any]) -> Finding:
    threads = count(runner.get("native_threads"))
    if threads <= 1:
        return ok("threads", "a runner starts with one thread: it may fork until its code starts more")
    text = f"a runner starts with {threads} threads, so everything that forks is refused or at risk"
    return warn("threads", text, "look for what a sitecustomize or a preload_script imports")


def grpc(variables: Mapping[str, Any]) -> Finding:
    settings = ", ".join(f"{name}={value}" for name, value in variables.items()) or f"{SUPPORT} is not set"
    support = text(variables.get(SUPPORT))
    remedy = "policies: {fork: {grpc: {support: false}}}"
    if support == "0":
        return ok("gRPC", f"{settings}: its threads survive a fork unharmed as long as the child does not call it")
    if support == "":
        return warn("gRPC", f"{settings}: a forked child may crash", remedy)
    return warn("gRPC", f"{settings}: a fork may hang inside gRPC's own handlers", remedy)


def pools(variables: Mapping[str, Any], cpus: int) -> Iterator[Finding]:
    """Check every thread pool against the CPUs of a slot."""
    sizes = {name: int(value) for name, value in variables.items() if str(value).isdecimal()}
    over = {name: size for name, size in sizes.items() if size > cpus}
    if "OMP_NUM_THREADS" not in sizes:
        text = "OMP_NUM_THREADS is not set: a library may start a thread for every CPU of the machine"
        yield warn("thread-pools", text, f"components.NAME.env: {{OMP_NUM_THREADS: {cpus}}}")
    if over:
        settings = ", ".join(f"{name}={size}" for name, size in over.items())
        text = f"{settings}: more than the {plural(cpus, 'CPU')} of a slot, so threads wait for each other"
        yield warn("thread-pools", text, f"leave them out of components.NAME.env, or write at most {cpus}")
    elif "OMP_NUM_THREADS" in sizes:
        most = max(sizes.values())
        yield ok(
            "thread-pools", f"{len(sizes)} settings limit pools to {most}, within the {plural(cpus, 'CPU')} of a slot"
        )


def memory(protections: Mapping[str, Any]) -> Finding:
    limit, by = count(protections.get("memory")), text(protections.get("memory_by")) or "nobody"
    if not limit:
        remedy = "components.NAME.memory: 4GiB, or what a run needs at most"
        return warn("memory", "no limit: a run that grows takes the machine's memory from its neighbours", remedy)
    return ok("memory", f"limited to {Memory(limit)}, enforced by {by}; a run over it is killed alone")


def versions(runner: Mapping[str, Any]) -> Finding:
    there = {"Python": text(runner.get("python")), "scalable": text(runner.get("scalable"))}
    own = {"Python": platform.python_version(), "scalable": __version__}
    listed_versions = ", ".join(
        f"{name} {number}" for name, number in {**there, **mapping(runner.get("versions"))}.items()
    )
    differ = [f"{name} {there[name] or '?'} there, {own[name]} here" for name in own if there[name] != own[name]]
    if differ:
        text_ = f"{listed_versions}; {'; '.join(differ)}"
        return warn("versions", text_, "use one environment for the session and its workers")
    return ok("versions", listed_versions)
