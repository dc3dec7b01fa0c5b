"""Choosing a private Slurm as the one that this process talks to, and skipping where its programs are missing."""

from __future__ import annotations

import os

import pytest

from tests.tools import system
from tests.tools.errors import ToolMissingError
from tests.tools.slurm import PrivateSlurm


def skip_without_slurm() -> None:
    try:
        system.require(system.SLURM_PROGRAMS)
    except ToolMissingError as error:
        pytest.skip(str(error))


def use(slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a cluster the one that Slurm's commands and libraries of this process talk to, and no other."""
    for name in set(os.environ) - set(slurm.full_env):
        monkeypatch.delenv(name)
    for name, value in slurm.env.items():
        monkeypatch.setenv(name, value)
