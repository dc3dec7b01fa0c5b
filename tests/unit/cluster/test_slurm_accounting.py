"""The balance of an account, from what sshare and sacctmgr print."""

from __future__ import annotations

import pytest

from scalable.cluster.slurm import accounting
from scalable.cluster.slurm.accounting import balance_in, balance_of, minutes, usual_account
from scalable.machine_hours import CORE_HOURS, GPU_HOURS, NODE_HOURS, MachineHours

LIMITED = (
    "climate||cpu=3000000,gres/gpu=6000|cpu=600000,mem=1843200000,energy=0,node=12500,billing=600000,fs/disk=0,"
    "vmem=0,pages=0,gres/gpu=1500,gres/gpu:a100=1500\n"
    "climate|ada|cpu=1200000|cpu=660000,mem=1,energy=0,node=900,billing=660000,fs/disk=0,vmem=0,pages=0,gres/gpu=0\n"
)
"""``sshare -h -P -A climate -o Account,User,GrpTRESMins,GrpTRESRaw``: the account, and this user in it."""
UNLIMITED = "climate|||cpu=600000,mem=1,node=12500\nclimate|ada||cpu=100,mem=1,node=2\n"


def test_the_tightest_limit_is_the_balance() -> None:
    assert balance_in(LIMITED, "climate", CORE_HOURS) == MachineHours.parse("9000 core-hours")
    assert balance_in(LIMITED, "Climate", GPU_HOURS) == MachineHours.parse("75 gpu-hours")


@pytest.mark.parametrize(
    ("out", "unit"), [(LIMITED, NODE_HOURS), (UNLIMITED, CORE_HOURS), ("", CORE_HOURS), ("junk\n|||\n", CORE_HOURS)]
)
def test_without_a_limit_there_is_no_balance(out: str, unit: str) -> None:
    assert balance_in(out, "climate", unit) is None


def test_another_account_says_nothing() -> None:
    assert balance_in(LIMITED, "oceans", CORE_HOURS) is None


def test_an_account_that_used_too_much_has_less_than_nothing() -> None:
    over = balance_in("climate||cpu=60|cpu=180\n", "climate", CORE_HOURS)
    assert over is not None
    assert over.amount == -2


def test_gpus_that_are_listed_by_type_only_are_added_up() -> None:
    assert minutes("cpu=5,gres/gpu:a100=60,gres/gpu:v100=30", "gres/gpu") == 90


def test_without_an_account_in_the_manifest_the_users_usual_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"sacctmgr": "climate\n", "sshare": LIMITED}
    asked: list[list[str]] = []

    def answer(command: list[str]) -> str:
        asked.append(command)
        return answers[command[0]]

    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(accounting, "answer", answer)
    assert balance_of(None, CORE_HOURS) == MachineHours.parse("9000 core-hours")
    assert asked[1][:5] == ["sshare", "-h", "-P", "-A", "climate"]
    assert balance_of("climate", GPU_HOURS) == MachineHours.parse("75 gpu-hours")
    answers["sacctmgr"] = usual_account("")
    assert balance_of(None, CORE_HOURS) is None


def test_where_there_is_no_sshare_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert balance_of("climate", CORE_HOURS) is None
