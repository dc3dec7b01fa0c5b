"""The facts about this machine that plans need: its size, its past runs, its packages."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable.errors import PlanningError
from scalable.findings import Finding
from scalable.observe.folders import runs_dir, state_file
from scalable.quantities import Cpu, Memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scalable.machine_hours import MachineHours
    from scalable.manifest.models import Manifest
    from scalable.planning.history import History
    from scalable.planning.pins import Pin
    from scalable.planning.resources import Size
    from scalable.planning.site import Machine, Site
    from scalable.sweeps.workload import Workload

ANSWER_WITHIN_S = 10.0  # a controller that takes longer is left out of the plan


def this_machine() -> Machine:
    from scalable.cluster.base import usable_cpus
    from scalable.planning.site import Machine

    return Machine(Cpu.of(usable_cpus()), Memory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))


def site_of(
    manifest: Manifest, target: str | None, folder: Path, pin: Pin | None = None, known: Iterable[Workload] = ()
) -> Site:
    """Return where work runs, on top of what is locked. Workloads not ``known`` are imported from ``folder``."""
    from scalable.planning.site import Site

    base, findings = locked(manifest)
    code = partial(code_now, folder, {each.path: each for each in known})
    node, unknown = batch_node(manifest, target)
    return Site(
        manifest, target, this_machine(), pin, base=base, code=code,
        findings=(*findings, *unknown), batch_node=node, balance=balance_now(manifest, target),
    )  # fmt: skip


def batch_node(manifest: Manifest, target: str | None) -> tuple[Size | None, list[Finding]]:
    """Return what a node of a Slurm target has, where jobs have whole nodes; Slurm is asked for that."""
    from scalable.cluster.slurm.commands import SIZES, complaint, smallest_node
    from scalable.manifest.targets import SlurmTarget

    place = manifest.targets.get(target or "")
    if not isinstance(place, SlurmTarget) or not place.exclusive:
        return None, []
    try:
        asked = subprocess.run(SIZES, text=True, capture_output=True, timeout=ANSWER_WITHIN_S, check=False)
        node = smallest_node(asked.stdout, place.queue, place.constraint)
        problem = "" if node is not None else complaint(asked.stderr) if asked.stderr else "sinfo shows no such node"
    except (OSError, subprocess.TimeoutExpired) as error:
        node, problem = None, str(error)
    if node is not None:
        return node, []
    text = f"how large a node is could not be asked ({problem}): a worker is planned to have one to itself"
    remedy = "plan on a machine of the cluster, or write workers_per_job"
    return None, [Finding.warning("node-size-unknown", f"targets.{target}.exclusive", text, remedy)]


def balance_now(manifest: Manifest, target: str | None) -> MachineHours | None:
    """Return what the account of a Slurm target has left, where a budget of hours asks for it and accounting says."""
    from scalable.cluster.slurm.accounting import balance_of
    from scalable.manifest.targets import SlurmTarget

    place = manifest.targets.get(target or "")
    allocation = manifest.budget.allocation if manifest.budget else None
    if allocation is None or not isinstance(place, SlurmTarget):
        return None
    return balance_of(place.account, allocation.unit)


def locked(manifest: Manifest) -> tuple[Mapping[str, Any], list[Finding]]:
    """Return the base configuration of the manifest's store. A store that is not there yet has none and is not made."""
    from scalable.store import NoStoreError, StoreError
    from scalable.sweeps.loading import open_results

    try:
        with open_results(manifest, create=False) as store:
            return store.config().base_env, []
    except NoStoreError:
        return {}, []
    except StoreError as error:
        text = f"what is locked could not be read, so the plan is made as if nothing was: {error}"
        return {}, [Finding.warning("base-unknown", "store", text)]


def code_now(folder: Path, known: Mapping[str, Workload], run: str | None) -> str:
    """Return the fingerprint of a workload as it is now; nothing if it cannot be imported, which a run tells."""
    from scalable.sweeps.loading import importable
    from scalable.sweeps.workload import find_workload

    try:
        with importable(folder):
            return (known.get(run or "") or find_workload(run)).code_fingerprint()
    except Exception:  # noqa: BLE001 - code of the user's own
        return ""


def history(manifest: Path | str | None = None) -> History:
    """Return what earlier runs of a manifest's project measured, else those of the current folder."""
    from scalable.planning.history import History

    path = state_file("history.json", runs_dir(manifest=manifest))
    if not path.exists():
        return History()
    try:
        return History.from_dict(json.loads(path.read_text(encoding="utf-8")), month=f"{datetime.now(UTC):%Y-%m}")
    except (ValueError, OSError, RecursionError) as error:
        raise PlanningError(f"{path}: {error}") from None
