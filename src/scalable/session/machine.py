"""What commands and sessions must ask of this machine before they can plan: its size, its past runs, its packages."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable.errors import PlanningError
from scalable.findings import Finding
from scalable.observe.folders import runs_dir, state_file
from scalable.quantities import Cpu, Memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalable.manifest.models import Manifest
    from scalable.planning.history import History
    from scalable.planning.pins import Pin
    from scalable.planning.site import Machine, Site


def this_machine() -> Machine:
    from scalable.cluster.base import usable_cpus
    from scalable.planning.site import Machine

    return Machine(Cpu.of(usable_cpus()), Memory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))


def site_of(manifest: Manifest, target: str | None, folder: Path, pin: Pin | None = None) -> Site:
    """Return where work runs, on top of what is locked. Workloads of one's own are imported from ``folder``."""
    from scalable.planning.site import Site

    base, findings = locked(manifest)
    return Site(manifest, target, this_machine(), pin, base=base, code=partial(code_now, folder), findings=findings)


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


def code_now(folder: Path, run: str | None) -> str:
    """Return the fingerprint of a workload as it is now; nothing if it cannot be imported, which a run tells."""
    from scalable.sweeps.loading import importable
    from scalable.sweeps.workload import find_workload

    try:
        with importable(folder):
            return find_workload(run).code_fingerprint()
    except Exception:  # noqa: BLE001 - code of the user's own
        return ""


def history(manifest: Path | str | None = None) -> History:
    """What earlier runs of a manifest's project measured, else those of the current folder."""
    from scalable.planning.history import History

    path = state_file("history.json", runs_dir(manifest=manifest))
    if not path.exists():
        return History()
    try:
        return History.from_dict(json.loads(path.read_text(encoding="utf-8")), month=f"{datetime.now(UTC):%Y-%m}")
    except (ValueError, OSError, RecursionError) as error:
        raise PlanningError(f"{path}: {error}") from None
