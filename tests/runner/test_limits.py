"""Memory groups: real ones of version 1 where this machine has them, version 2 on a folder shaped like one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalable import proc
from scalable.worker.runner import limits
from scalable.worker.runner.limits import MemoryGroup, Place, Unavailable
from tests.runner.programs import PATIENCE_S, eventually, program

MIB = 1 << 20
REASON = MemoryGroup.why_not()
kernel = pytest.mark.skipif(bool(REASON), reason=REASON)
IDLE = "print('ready', flush=True); import time; time.sleep(600)"


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    made = MemoryGroup.make("test", 200 * MIB)
    assert made is not None
    yield made
    for pid in made.pids():
        proc.kill([pid])
    eventually(made.close, "an empty group can be removed")


def eat(mib: int, then: str = "") -> list[str]:
    """A program that waits to be taken in, then uses memory."""
    return [
        sys.executable,
        "-c",
        f"input(); data = b'x' * ({mib} << 20); print('ate', flush=True); {then or 'input()'}",
    ]


def started(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def tell(process: subprocess.Popen[bytes]) -> bytes:
    """Let it go on, and wait for what it says; nothing if it died."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    return process.stdout.readline()


def ended(process: subprocess.Popen[bytes]) -> int:
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    return process.returncode


@kernel
def test_a_process_over_its_limit_is_killed_and_the_group_knows_why(group: MemoryGroup) -> None:
    process = started(eat(400))
    assert group.add(process.pid)
    assert group.pids() == [process.pid]
    assert tell(process) == b""
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    ended(process)
    assert group.out_of_memory() == 1


@kernel
def test_a_process_within_its_limit_is_not_touched(group: MemoryGroup) -> None:
    process = started(eat(100))
    group.add(process.pid)
    assert tell(process) == b"ate\n"
    assert ended(process) == -signal.SIGKILL
    assert group.out_of_memory() == 0


@kernel
def test_children_count_together(group: MemoryGroup) -> None:
    both = "import os, time; os.fork(); data += b'x'; time.sleep(60)"
    process = started(eat(120, both))  # copied by adding to it: more than 200 MiB together
    group.add(process.pid)
    tell(process)
    eventually(group.out_of_memory, "a process is killed")
    proc.kill(group.pids())
    ended(process)


@kernel
def test_a_limit_can_be_raised_and_lowered(group: MemoryGroup) -> None:
    assert group.limit() == 200 * MIB
    assert group.set_limit(500 * MIB)
    process = started(eat(300))
    group.add(process.pid)
    assert tell(process) == b"ate\n"
    assert not group.set_limit(100 * MIB) or group.version == 2  # cannot be freed
    assert group.limit() in (500 * MIB, 100 * MIB)
    ended(process)
    eventually(lambda: group.set_limit(150 * MIB), "a smaller limit once there is room")


@kernel
def test_a_group_with_living_processes_stays_and_can_be_closed_later(group: MemoryGroup) -> None:
    with program(IDLE) as it:
        group.add(it.pid)
        assert not group.close()
        assert group.path.exists()
    eventually(group.close, "it is empty")
    assert not group.path.exists()
    assert group.close()


@kernel
def test_a_group_is_below_the_group_this_process_is_in(group: MemoryGroup) -> None:
    """Else the limit of a pod or batch job would be evaded."""
    place = limits.place_here()
    assert group.path.parent == place.path
    with program(IDLE) as it:
        group.add(it.pid)
        own = limits.own_group(group.version)
        theirs = Path(f"/proc/{it.pid}/cgroup").read_text()
        assert f"{own.rstrip('/')}/{group.path.name}" in theirs


@kernel
def test_groups_of_makers_that_died_are_removed_others_stay(
    group: MemoryGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = group.path.parent
    dead = place / "scalable-999999999-1-dead"
    dead.mkdir()
    limits.remove_abandoned(place)
    assert dead.exists()  # too young: it may be of a container whose processes we cannot see
    monkeypatch.setattr(limits, "ABANDONED_S", -1.0)
    limits.remove_abandoned(place)
    assert not dead.exists()
    assert group.path.exists()


@kernel
def test_a_process_that_is_gone_cannot_be_taken_in(group: MemoryGroup) -> None:
    with program("print('ready', flush=True)") as it:
        it.process.wait()
        assert not group.add(it.pid)


def test_a_folder_that_is_no_group_is_told_of(tmp_path: Path) -> None:
    assert MemoryGroup.make("x", MIB, tmp_path) is None
    assert MemoryGroup.why_not(tmp_path) == f"{tmp_path} is no control group that limits memory"
    assert "does not exist" in MemoryGroup.why_not(tmp_path / "missing")


# Version 2, on a folder with the kernel's files; the kernel makes those of a new group, here a patched mkdir does

FILES = {"memory.max": "", "memory.swap.max": "", "memory.oom.group": "", "cgroup.procs": ""} | {
    "memory.events": "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 1\n",
    "cgroup.controllers": "cpu memory pids\n",
    "cgroup.subtree_control": "",
}


def fill(folder: Path, **changed: str) -> Path:
    if not folder.exists():
        folder.mkdir()
    for name, text in (FILES | {name.replace("__", "."): text for name, text in changed.items()}).items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A group at the top of a hierarchy, already passing memory on."""
    top = fill(tmp_path / "unified", cgroup__subtree_control="cpu memory\n")
    make = Path.mkdir

    def mkdir(self: Path) -> None:
        make(self)
        if self.name.startswith("scalable-"):
            fill(self)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    return top


def test_version_2_limits_memory_without_swap_and_kills_a_run_as_a_whole(version_2: Path) -> None:
    group = MemoryGroup.make("scalable-abc", 300 * MIB, version_2)
    assert group is not None
    assert group.version == 2
    assert group.path.name.startswith(f"scalable-{os.getpid()}-")
    assert group.path.name.endswith("-abc")
    written = {name: group.read(name).strip() for name in ("memory.max", "memory.swap.max", "memory.oom.group")}
    assert written == {"memory.max": str(300 * MIB), "memory.swap.max": "0", "memory.oom.group": "1"}
    assert group.out_of_memory() == 3
    assert group.add(4711)
    assert group.pids() == [4711]


def test_version_2_asks_its_group_to_pass_memory_on(tmp_path: Path) -> None:
    path = fill(tmp_path / "job")
    assert not limits.passes_on(path)  # "+memory" is a word of the kernel's; a file only keeps it
    assert (path / "cgroup.subtree_control").read_text() == "+memory"


def test_version_2_uses_the_group_above_if_its_own_has_processes_and_no_limit(tmp_path: Path) -> None:
    top = fill(tmp_path / "user", cgroup__subtree_control="memory\n")
    own = fill(top / "shell.scope", memory__max="max\n")
    assert limits.divided(own, tmp_path) == Place(top, 2)
    fill(own, memory__max=f"{MIB}\n")
    with pytest.raises(Unavailable, match="holds processes, so it cannot be divided"):
        limits.divided(own, tmp_path)


def test_version_2_never_leaves_the_part_of_the_hierarchy_that_is_mounted(tmp_path: Path) -> None:
    fill(tmp_path / "outside", cgroup__subtree_control="memory\n")
    own = fill(tmp_path / "outside" / "container", memory__max="max\n")
    with pytest.raises(Unavailable):
        limits.divided(own, own)
