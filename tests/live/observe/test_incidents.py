"""Incident records that several processes write at once."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from scalable.observe.incidents import NORMAL, Incident, IncidentFolder
from tests.helpers.waiting import LONG_S


def write_some(path: Path, count: int) -> None:
    for number in range(count):
        IncidentFolder(path).open(Incident("stuck", started=1.0, found=float(number), severity=NORMAL))


def test_numbers_are_unique_when_several_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_some, args=(tmp_path, 15)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(LONG_S)
        assert writer.exitcode == 0
    found = IncidentFolder(tmp_path)
    assert [one.id for one in found.all()] == list(range(1, 46))
    assert found.damaged == {}
