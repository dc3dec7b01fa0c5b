"""Memory figures that cost more than a look at a process, or that concern the whole machine."""

from __future__ import annotations

from pathlib import Path

from scalable import proc


def proportional(pid: int) -> int:
    """Bytes in memory, with pages that several processes share divided among them; needs about a millisecond."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return proc.resident(pid)


def oom_kills() -> int:
    """How many processes the kernel has killed on this machine because memory ran out."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return 0


def readable(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
