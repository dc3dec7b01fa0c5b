"""The balance of an account, as Slurm's accounting knows it: the limit in TRES-minutes and what was used of it.

``sshare`` prints the limits (``GrpTRESMins``) and the use (``GrpTRESRaw``) of an account, and of this user in it, in
minutes. Where no limit is set, or no accounting runs, there is no balance; sites that count elsewhere have none here.
"""

from __future__ import annotations

import getpass
import re
import shutil
import subprocess
from decimal import Decimal

from scalable.machine_hours import CORE_HOURS, GPU_HOURS, NODE_HOURS, MachineHours

ANSWER_WITHIN_S = 10.0  # a plan does not wait longer for a figure that it can do without
TRES = {CORE_HOURS: "cpu", NODE_HOURS: "node", GPU_HOURS: "gres/gpu"}
"""Slurm's name for the resource that each unit counts."""
FIELDS = "Account,User,GrpTRESMins,GrpTRESRaw"


def balance_of(account: str | None, unit: str) -> MachineHours | None:
    """Return what an account, or this user's usual one, has left; nothing where accounting does not say."""
    if shutil.which("sshare") is None:
        return None
    chosen = account or usual_account(answer(["sacctmgr", "-n", "-P", "show", "user", user(), "format=DefaultAccount"]))
    if not chosen:
        return None
    return balance_in(answer(["sshare", "-h", "-P", "-A", chosen, "-o", FIELDS]), chosen, unit)


def user() -> str:
    return getpass.getuser()


def answer(command: list[str]) -> str:
    """Return what a program prints; nothing if it fails, as these do where no accounting runs."""
    try:
        done = subprocess.run(command, text=True, capture_output=True, timeout=ANSWER_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def usual_account(out: str) -> str:
    """Return the account in the first line that ``sacctmgr show user`` prints."""
    return out.splitlines()[0].strip() if out.strip() else ""


def balance_in(out: str, account: str, unit: str) -> MachineHours | None:
    """Return the balance in lines of ``sshare``, ``account|user|limits|used``; the tightest limit counts."""
    left = []
    for line in out.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) < 4 or fields[0].lower() != account.lower():
            continue
        limit, used = (minutes(fields[place], TRES[unit]) for place in (2, 3))
        if limit is not None:
            left.append(limit - (used or 0))
    return MachineHours(Decimal(min(left)) / 60, unit) if left else None


def minutes(listed: str, tres: str) -> int | None:
    """Return one amount of a list such as ``cpu=3000000,gres/gpu=6000``; nothing if it is not in it, or no limit.

    GPUs of single types (``gres/gpu:a100``) stand beside the sum of all, and count only where that is missing.
    """
    amounts = dict(re.findall(r"([\w/:.-]+)=(\d+)", listed))
    if tres in amounts:
        return int(amounts[tres])
    typed = [int(amount) for name, amount in amounts.items() if name.startswith(f"{tres}:")]
    return sum(typed) if typed else None
