"""A sweep on Slurm: its rows are those of a loop on this machine, and whoever is lost costs none."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from scalable.session.session import ScalableSession
from scalable.session.sweep.outcomes import SweepOutcome
from tests.helpers.settings import remove_settings
from tests.helpers.slurm.helpers import WITHIN_S, workers_of
from tests.helpers.sweeps.faults.trading import NAME, assert_same, naive, rows, write
from tests.helpers.waiting import eventually
from tests.tools.slurm import PrivateSlurm

SLURM = {"provider": "slurm", "queue": "main", "interface": "lo", "walltime": "00:30:00", "max_workers": 2}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    remove_settings(monkeypatch)
    return tmp_path


def test_rows_of_a_sweep_on_slurm_that_lost_a_worker_are_those_of_a_loop_here(
    slurm: PrivateSlurm, folder: Path
) -> None:
    session = ScalableSession.from_yaml(write(folder, SLURM, folds=1), target="here")
    outcomes: list[SweepOutcome] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            outcomes.append(session.run_sweep(NAME))
        except BaseException as error:  # noqa: BLE001, told below
            failures.append(error)

    running = threading.Thread(target=run)
    running.start()
    artefacts = folder / "artefacts"
    eventually(
        lambda: list(artefacts.glob(".scratch/search/*")) or failures,
        lambda: f"a search under way {failures}",
        WITHIN_S,
    )
    assert not failures
    (one, *_) = workers_of(folder)
    os.kill(one, signal.SIGKILL)
    running.join(2 * WITHIN_S)
    assert not failures and [outcome.complete for outcome in outcomes] == [True], failures
    assert_same(rows(folder), naive(folds=1))
    executed = outcomes[0].executed
    assert executed["bars"] <= 2 and executed["search"] <= 2, "what the lost one had finished was found"
    eventually(lambda: not slurm.living(), lambda: f"{slurm.living()} to be gone")
