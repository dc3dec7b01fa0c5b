"""Memory groups: real ones of version 1 where this machine has them, version 2 on a folder shaped like one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scalable.worker.runner import limits
from scalable.worker.runner.limits import GroupFolder, MemoryGroup, Unavailable
from tests.helpers.runner.limits import MIB, group, kernel

__all__ = ["group"]


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


def test_a_folder_that_is_no_group_is_told_of(tmp_path: Path) -> None:
    assert MemoryGroup.make("x", MIB, tmp_path) is None
    assert MemoryGroup.why_not(tmp_path) == f"{tmp_path} is no control group that limits memory"
    assert "does not exist" in MemoryGroup.why_not(tmp_path / "missing")


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


def test_the_peak_of_a_group_is_the_kernels_without_cache_of_files(version_2: Path) -> None:
    group = MemoryGroup.make("scalable-abc", 300 * MIB, version_2)
    assert group is not None
    assert group.peak() == 0, "kernels before 5.19 have none"
    (group.path / "memory.stat").write_text(f"anon {90 * MIB}\nfile {60 * MIB}\nshmem {10 * MIB}\n")
    (group.path / "memory.peak").write_text(str(150 * MIB))
    assert group.peak() == 100 * MIB, "what is in shared memory is no cache"


def test_a_peak_that_cannot_be_set_back_counts_only_when_it_grows(tmp_path: Path) -> None:
    folder = tmp_path / "group"
    folder.mkdir()
    (folder / "memory.max_usage_in_bytes").write_text(str(80 * MIB))
    group = MemoryGroup(folder, 2)
    (folder / "memory.peak").write_text(str(80 * MIB))
    group.peak_before = group.highest()
    assert group.peak() == 0
    (folder / "memory.peak").write_text(str(120 * MIB))
    assert group.peak() == 120 * MIB


def test_version_2_asks_its_group_to_pass_memory_on(tmp_path: Path) -> None:
    path = fill(tmp_path / "job")
    assert not limits.passes_on(path)  # "+memory" is a word of the kernel's; a file only keeps it
    assert (path / "cgroup.subtree_control").read_text() == "+memory"


def test_version_2_uses_the_group_above_if_its_own_has_processes_and_no_limit(tmp_path: Path) -> None:
    top = fill(tmp_path / "user", cgroup__subtree_control="memory\n")
    own = fill(top / "shell.scope", memory__max="max\n")
    assert limits.divided(own, tmp_path) == GroupFolder(top, 2)
    fill(own, memory__max=f"{MIB}\n")
    with pytest.raises(Unavailable, match="holds processes, so it cannot be divided"):
        limits.divided(own, tmp_path)


def test_version_2_never_leaves_the_part_of_the_hierarchy_that_is_mounted(tmp_path: Path) -> None:
    fill(tmp_path / "outside", cgroup__subtree_control="memory\n")
    own = fill(tmp_path / "outside" / "container", memory__max="max\n")
    with pytest.raises(Unavailable):
        limits.divided(own, own)
