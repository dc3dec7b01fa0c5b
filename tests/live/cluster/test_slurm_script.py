"""What is written for Slurm and what is understood of its answers, without a Slurm."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from scalable import proc
from scalable.cluster.network import no_such_port
from scalable.cluster.slurm import commands
from scalable.cluster.slurm.commands import Slurm, SlurmSilent
from tests.helpers.waiting import LONG_S, soon, until


def test_ports_that_cannot_be_used_are_refused() -> None:
    assert no_such_port(0) == ""
    assert "80000 is no port" in no_such_port(80_000)
    assert "True is no port" in no_such_port(True)


def put_first(program: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of Slurm's name that is found before Slurm's own."""
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


def test_who_does_not_wait_for_an_answer_any_more_leaves_no_program_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_first(tmp_path / "scontrol", f"echo $$ > {tmp_path}/pid\nexec sleep {LONG_S}", monkeypatch)

    async def scenario() -> None:
        asking = asyncio.ensure_future(Slurm().epitaph("1"))
        await soon(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
        asking.cancel()
        await asyncio.wait({asking})
        assert asking.cancelled()
        assert not proc.alive(int((tmp_path / "pid").read_text()))

    asyncio.run(asyncio.wait_for(scenario(), LONG_S))


def test_a_program_that_a_site_has_wrapped_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_first(tmp_path / "sbatch", f"sleep {LONG_S}\nexit 1", monkeypatch)
    monkeypatch.setattr(commands, "ANSWER_WITHIN_S", 0.5)
    environment = {**os.environ, "WRAPPED_BY": str(tmp_path)}
    with pytest.raises(SlurmSilent, match="did not answer"):
        asyncio.run(asyncio.wait_for(Slurm().submit("", environment), LONG_S / 2))
    assert until(lambda: not proc.marked("WRAPPED_BY", str(tmp_path)))
