"""Files of the kernel: figures by name, and the table of mounts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scalable import proc


def test_a_figure_is_found_by_its_whole_name_and_kilobytes_are_bytes(tmp_path: Path) -> None:
    file = tmp_path / "status"
    file.write_text("VmHWMark:\t7 kB\nVmHWM:\t  1024 kB\noom_kill 3\noom_kill_other 9\n")
    assert proc.figure(str(file), "VmHWM") == 1024 * 1024
    assert proc.figure(str(file), "oom_kill") == 3
    assert proc.figure(str(file), "Vm") is None
    assert proc.figure(str(tmp_path / "missing"), "VmHWM") is None


def test_mount_points_with_blanks_are_read_and_short_lines_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    table = [
        r"36 35 98:0 /scratch /mnt/my\040disk rw,noatime master:1 - nfs4 server:/x rw,memory",
        "nonsense",
        "1 2 3 - x",
    ]
    monkeypatch.setattr(proc, "lines", lambda file: table)
    assert proc.mounts() == [proc.Mount("/scratch", "/mnt/my disk", "nfs4", "rw,memory")]


def test_the_peak_of_this_process_is_known_and_can_be_reset() -> None:
    assert (proc.peak_since_reset() or 0) >= proc.resident(os.getpid()) // 2
    assert proc.reset_peak()
