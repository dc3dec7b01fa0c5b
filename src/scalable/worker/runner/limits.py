"""A memory limit that the kernel keeps for a process with all its children: a control group, version 2 or 1.

A group is made below the one this process is in, so that limits set from outside (a pod, a batch job) hold as well.
Where that is not permitted or not mounted there is none, ``why_not`` says why, and the supervisor's own measuring has
to do: nothing here ever fails a run. Version 2 lets a group have either processes or limited groups below it, so the
group we are in is used only if it may be divided, else the one above if ours has no limit that this would evade.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scalable import proc

CLOSE_WITHIN_S = 1.0  # a group is busy for a moment after its last process has ended
ABANDONED_S = 60.0  # a younger group of a process we cannot see may be another container's
OURS = re.compile(r"scalable-(\d+)-(\d+)-.+")
LARGEST = 1 << 62  # version 1 has no word for no limit


class Unavailable(Exception):  # noqa: N818 - no error: there are machines without
    """The reason why there is no group, for people."""


@dataclass(frozen=True, slots=True)
class GroupFolder:
    """A folder in which groups can be made."""

    path: Path
    version: int


class MemoryGroup:
    """Processes that share a limit of memory. Methods that change something say whether the kernel did it."""

    def __init__(self, path: Path, version: int) -> None:
        self.path = path
        self.version = version
        self.peak_file: int | None = None
        self.peak_before = 0
        """The kernel's highest figure when the count began, where it could not be set back."""

    @classmethod
    def make(cls, name: str, limit_bytes: int, base: Path | None = None) -> MemoryGroup | None:
        """Make a group, or return None where the machine gives us none. ``base`` is where, if not here."""
        try:
            return cls._make(name, limit_bytes, base)
        except (Unavailable, OSError):
            return None

    @classmethod
    def why_not(cls, base: Path | None = None) -> str:
        """Try ``make`` and return why it gives nothing, for people; empty where it works."""
        try:
            cls._make("trial", 1 << 30, base).close()
        except Unavailable as reason:
            return str(reason)
        except OSError as error:
            return f"the kernel refuses a memory group: {error.strerror or error}"
        return ""

    @classmethod
    def _make(cls, name: str, limit_bytes: int, base: Path | None) -> MemoryGroup:
        place = place_at(base) if base is not None else place_here()
        remove_abandoned(place.path)
        group = cls(place.path / group_name(name), place.version)
        group.path.mkdir()
        group.write("memory.oom.group", 1)  # all of a run dies, not one process at random
        if not group.set_limit(limit_bytes):
            group.close()
            raise Unavailable(f"{place.path} does not limit memory")
        return group

    def add(self, pid: int) -> bool:
        """Take a process in; its later children come with it. What it used before stays counted elsewhere."""
        return self.write("cgroup.procs", pid)

    def set_limit(self, limit_bytes: int) -> bool:
        """Set the limit, without swap where that can be said. Version 1 refuses one below what cannot be freed."""
        limit = max(proc.PAGE, limit_bytes)
        if self.version == 2:
            self.write("memory.swap.max", 0)
            return self.write("memory.max", limit)
        self.write("memory.memsw.limit_in_bytes", LARGEST)  # must never be the lesser of the two
        done = self.write("memory.limit_in_bytes", limit)
        if done:
            self.write("memory.memsw.limit_in_bytes", limit)
        return done

    def limit(self) -> int:
        """Return the limit in bytes; 0 if none is set."""
        text = self.read("memory.max" if self.version == 2 else "memory.limit_in_bytes").strip()
        return int(text) if text.isdecimal() and int(text) < LARGEST else 0

    def out_of_memory(self) -> int:
        """Return how many of its processes the kernel has killed for want of memory."""
        return self.numbers("memory.events" if self.version == 2 else "memory.oom_control").get("oom_kill", 0)

    def begin_peak(self) -> None:
        """Count the highest use from now on. Kernels set it back in version 1, and in version 2 from Linux 6.12 on."""
        file = self.path / ("memory.peak" if self.version == 2 else "memory.max_usage_in_bytes")
        if self.version == 1 and written(file, "0"):
            self.peak_before = 0
            return
        if self.version == 2 and self.peak_file is None:
            with suppress(OSError):
                self.peak_file = os.open(file, os.O_RDWR)
        if self.peak_file is not None:
            try:
                os.write(self.peak_file, b"reset")  # holds for whoever reads by this very descriptor
            except OSError:
                os.close(self.peak_file)
                self.peak_file = None
        self.peak_before = 0 if self.peak_file is not None else self.highest()

    def peak(self) -> int:
        """Return the highest use since the count began, without what is now cache of files; 0 if that is not known.

        A group counts the pages of files that its processes read, which the kernel takes back when memory is short.
        """
        highest = self.highest()
        if highest <= self.peak_before:
            return 0
        use = self.numbers("memory.stat")
        cache = use.get("file" if self.version == 2 else "cache", 0) - use.get("shmem", 0)
        return max(0, highest - max(0, cache))

    def highest(self) -> int:
        """Return the kernel's figure; 0 where it has none (version 2 before Linux 5.19)."""
        text = ""
        if self.peak_file is not None:
            with suppress(OSError):
                text = os.pread(self.peak_file, 64, 0).decode()
        else:
            text = self.read("memory.peak" if self.version == 2 else "memory.max_usage_in_bytes")
        return int(text) if text.strip().isdecimal() else 0

    def pids(self) -> list[int]:
        return [int(line) for line in self.read("cgroup.procs").split() if line.isdecimal()]

    def close(self) -> bool:
        """Remove the group. One whose processes live stays; the next one made here removes it once they have ended."""
        if self.peak_file is not None:
            os.close(self.peak_file)
            self.peak_file = None
        until = time.monotonic() + CLOSE_WITHIN_S
        while not removed(self.path):
            if self.pids() or time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    def read(self, file: str) -> str:
        return "\n".join(proc.lines(self.path / file))

    def write(self, file: str, value: int) -> bool:
        return written(self.path / file, str(value))

    def numbers(self, file: str) -> dict[str, int]:
        pairs = (line.split() for line in self.read(file).splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def place_here() -> GroupFolder:
    """Return where groups of this process are to be made."""
    for version, mount, root in memory_mounts():
        own = own_group(version)
        path = mount / os.path.relpath(own, root)
        if not own.startswith(root) or ".." in path.parts or not path.is_dir():
            path = mount  # a container sees its own group as the top
        if version == 1:
            return place_at(path)
        if "memory" in words(path / "cgroup.controllers"):
            return divided(path, mount)
    raise Unavailable("no control groups that limit memory are mounted on this machine")


def place_at(path: Path) -> GroupFolder:
    if not os.access(path, os.W_OK):
        raise Unavailable(f"no groups can be made in {path}: it does not exist or is not this user's to change")
    if (path / "memory.limit_in_bytes").exists():
        return GroupFolder(path, 1)
    if not (path / "cgroup.controllers").exists():
        raise Unavailable(f"{path} is no control group that limits memory")
    return divided(path, path)


def divided(path: Path, top: Path) -> GroupFolder:
    """Return a version 2 group that passes its memory controller on: this one if it can, else the one above."""
    if os.access(path, os.W_OK) and passes_on(path):
        return GroupFolder(path, 2)
    limit = "memory.max"
    unlimited = not (path / limit).exists() or words(path / limit) == ["max"]
    above = path.parent
    if path != top and unlimited and os.access(above, os.W_OK) and "memory" in words(above / "cgroup.subtree_control"):
        return GroupFolder(above, 2)
    if not os.access(path, os.W_OK):
        raise Unavailable(f"{path} is not delegated to this user")
    raise Unavailable(f"{path} holds processes, so it cannot be divided; run in a scope of its own (Delegate=yes)")


def passes_on(path: Path) -> bool:
    control = path / "cgroup.subtree_control"
    if "memory" in words(control):
        return True
    return written(control, "+memory") and "memory" in words(control)


def memory_mounts() -> Iterator[tuple[int, Path, str]]:
    """Yield hierarchies that may limit memory: version, mount point, and what part of it; version 1 first."""
    versions = {"cgroup2": 2, "cgroup": 1}
    yield from sorted(
        (versions[mount.kind], Path(mount.point), mount.root)
        for mount in proc.mounts()
        if mount.kind == "cgroup2" or (mount.kind == "cgroup" and "memory" in mount.options.split(","))
    )


def own_group(version: int) -> str:
    """Return the group this process is in, as the hierarchy calls it."""
    for line in proc.lines("/proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if (version == 2 and number == "0") or (version == 1 and "memory" in controllers.split(",")):
            return path
    return "/"


def group_name(name: str) -> str:
    """Return a name that says whose it is, so that it can be removed once its maker has died."""
    maker = proc.look(os.getpid())
    simple = re.sub(r"[^\w.-]+", "-", name.removeprefix("scalable-"))[:60]
    return f"scalable-{os.getpid()}-{maker.started if maker else 0}-{simple or 'group'}"


def remove_abandoned(place: Path) -> None:
    """Remove empty groups whose makers have died."""
    with suppress(OSError):
        for entry in os.scandir(place):
            match = OURS.fullmatch(entry.name)
            if match and entry.stat().st_mtime < time.time() - ABANDONED_S:
                maker = proc.look(int(match[1]))
                if maker is None or maker.started != int(match[2]):
                    removed(Path(entry.path))


def removed(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def written(path: Path, text: str) -> bool:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(file, text.encode())
    except OSError:
        return False
    finally:
        os.close(file)
    return True


def words(path: Path) -> list[str]:
    return " ".join(proc.lines(path)).split()
