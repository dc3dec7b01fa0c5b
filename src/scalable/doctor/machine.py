"""This machine: its Python and packages, what workers of a local target take of it, and where a run writes.

Nothing is left anywhere by looking.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from scalable import __version__
from scalable.cluster.base import DeploymentProvider, DeploymentSpec, get_provider
from scalable.doctor.checks import Case, fail, ok, warn
from scalable.errors import ScalableError
from scalable.findings import Finding, Severity
from scalable.manifest.models import Manifest
from scalable.manifest.targets import LocalTarget
from scalable.observe.folders import runs_dir
from scalable.quantities import Memory
from scalable.session.machine import this_machine
from scalable.store import StoreError, open_store
from scalable.store.urls import SQLITE, file_of, shown_url
from scalable.sweeps.loading import artefacts_url, store_url
from scalable.wording import install_hint, own_distribution, plural
from scalable.worker.runner.environment import THREAD_VARIABLES

FILES_OF_SCHEDULER = 200
BARE_WORKER = Memory(100 * 1024**2)  # Python with Dask takes 75 MiB before it runs anything
FILES_A_WORKER = 10  # connections and logs, with some to spare
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
NEEDED = {
    "slurm": ("cryptography",),
    "kubernetes": ("cryptography", "kr8s"),
    "aws": ("boto3", "cryptography"),
    "gcp": ("google.auth", "requests", "cryptography"),
}
"""Modules that a provider imports; they come with the extra of its name."""
LITTLE = Memory.of_gib(1)  # logs and journal of a long run, and what workers spill
NOTHING = Memory(50 * 2**20)  # below that a run does not get far
ANSWER_WITHIN_S = 2.0


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


def versions() -> Iterator[Finding]:
    """Check whether the packages are there in versions that go together."""
    installed_versions = {"scalable": __version__, **{name: installed(name) for name in ("dask", "distributed")}}
    listed_versions = ", ".join(f"{name} {number}" for name, number in installed_versions.items() if number)
    own = own_distribution()
    wrong = [problem for text in (own and own.requires) or () if (problem := unmet(text))]
    text = f"Python {platform.python_version()}, {listed_versions}"
    if wrong:
        yield fail("packages", f"{text}; {'; '.join(wrong)}", install_hint())
    elif installed_versions["dask"] != installed_versions["distributed"]:
        remedy = f"pip install dask=={installed_versions['distributed']}"
        yield fail("packages", f"{text}: dask and distributed must have the same version", remedy)
    else:
        yield ok("packages", text)


def unmet(requirement: str) -> str:
    """Return what is wrong with an installed package; empty if nothing is, or if it belongs to an extra."""
    try:
        needed = Requirement(requirement)
    except InvalidRequirement:
        return ""
    if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
        return ""
    there = installed(needed.name)
    if there is None:
        return f"{needed.name} is not installed"
    return "" if needed.specifier.contains(there, prereleases=True) else f"{needed} is needed, not {there}"


def importable(module: str) -> bool:
    with suppress(ModuleNotFoundError):  # a package that it lies in is missing
        return find_spec(module) is not None
    return False


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def provider(spec: DeploymentSpec) -> tuple[DeploymentProvider | None, list[Finding]]:
    name = spec.target.provider
    missing = [module for module in NEEDED.get(name, ()) if not importable(module)]
    if missing:
        text = f"{name} needs {', '.join(missing)}, which is not installed"
        return None, [fail("provider", text, install_hint(name))]
    try:
        known = get_provider(name)
    except (ScalableError, ImportError) as error:
        return None, [fail("provider", f"{name} cannot be used: {error}", "choose another target")]
    return known, [ok("provider", f"{name} for target {spec.target_name}")]


def workload(manifest: Manifest, spec: DeploymentSpec) -> Iterator[Finding]:
    """Check whether the modules that the stages of plug-ins import are there, unless an image has them."""
    if getattr(spec.target, "code", "") == "image":
        return
    plugins = {sweep.plugin.name: sweep.plugin for sweep in manifest.sweeps.values() if sweep.plugin and not sweep.run}
    for plugin in plugins.values():
        if missing := [module for module in plugin.requires if not importable(module)]:
            text = f"{plugin.label} needs {', '.join(missing)}, which is not installed"
            yield fail("workload", text, plugin.install_hint(*missing))


def folders(case: Case) -> Iterator[Finding]:
    yield folder(
        "runs-folder", runs_dir(manifest=case.folder), "write SCALABLE_RUNS_DIR=FOLDER with one you may write to"
    )
    if any(task.cache for task in case.manifest.tasks.values()):
        own = case.manifest.folder / Path(case.manifest.project.local_cache or ".scalable/cache").expanduser()
        named = Path(os.environ.get("SCALABLE_CACHE_DIR") or own)
        yield folder("cache-folder", named.expanduser(), "write SCALABLE_CACHE_DIR=FOLDER")
    if case.manifest.sweeps and "://" not in case.manifest.artefacts:
        yield folder("artefacts", Path(artefacts_url(case.manifest)), "write artefacts: FOLDER")
    yield folder("temporary-folder", Path(tempfile.gettempdir()), "write TMPDIR=FOLDER with one that has room")


def folder(name: str, path: Path, remedy: str) -> Finding:
    """Return whether it can be made and written, and how much room there is."""
    there = nearest(path)
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"x")
    except OSError as error:
        return fail(name, f"{path} cannot be written: {error.strerror or error}", remedy)
    free = Memory(shutil.disk_usage(there).free)
    text = f"{path}: {free} free"
    if free < NOTHING:
        return fail(name, text, remedy)
    return warn(name, f"{text}, which may not last", remedy) if free < LITTLE else ok(name, text)


def nearest(path: Path) -> Path:
    """Return the folder itself, or the one in which it would be made."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def store(case: Case) -> Iterator[Finding]:
    if not case.manifest.sweeps:
        return
    url = store_url(case.manifest)
    shown = shown_url(url)
    try:
        if url.partition(":")[0].lower() in SQLITE:
            yield of_file(file_of(url), shown)
        else:
            open_store(url, patience_s=ANSWER_WITHIN_S, folder=case.manifest.folder).close()
            yield ok("store", f"{shown} answers")
    except StoreError as error:
        yield fail("store", str(error), "write store: sqlite:///.scalable/results.db, or one you can reach")


def of_file(path: Path, shown: str) -> Finding:
    """Looks without making tables, and without touching what a running sweep may be writing."""
    remedy = "name a file you may write to"
    if not path.exists():
        check = folder("store", path.parent, remedy)
        return check if check.severity is Severity.ERROR else ok("store", f"{shown} will be made")
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK):
        return fail("store", f"{path} may not be written", remedy)
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=ANSWER_WITHIN_S)) as connection:
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.Error as error:
        return fail("store", f"{path} cannot be read: {error}", remedy)
    return ok("store", f"{shown}, {tables} tables and indexes")
