"""What commands share: which manifest, target and seed are meant, and what was measured before.

The planner is imported only by those who plan, so that checking a manifest stays quick.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from scalable.errors import PlanningError, UsageError
from scalable.manifest import Loaded, load_text
from scalable.manifest.load import read
from scalable.quantities import Cpu, Memory

if TYPE_CHECKING:
    from scalable.planning import History, Machine, Site


def load(options: argparse.Namespace, env: Mapping[str, str] = os.environ) -> Loaded:
    path = manifest_path(options.manifest, env)
    return load_named(read(path), str(path), options.target, options.overlay, env)


def load_named(
    text: str, file: str, target: str | None, overlay: str | None, env: Mapping[str, str] = os.environ
) -> Loaded:
    target = target or env.get("SCALABLE_TARGET") or None
    return load_text(text, file, env=env, target=target, overlay=overlay, providers=registered())


def registered() -> Iterator[str]:
    """Providers that other packages bring; looked up only if the manifest names one that is not built in."""
    from importlib.metadata import entry_points

    for point in entry_points(group="scalable.providers"):
        yield point.name


def manifest_path(named: str | None, env: Mapping[str, str] = os.environ) -> Path:
    return Path(named or env.get("SCALABLE_MANIFEST") or "scalable.yaml")


def seed(options: argparse.Namespace, env: Mapping[str, str] = os.environ) -> int:
    name = "--seed" if options.seed is not None else "SCALABLE_SEED"
    text = options.seed if options.seed is not None else env.get("SCALABLE_SEED") or "0"
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise UsageError(f"{name} is {text!r}; write a whole number from 0, e.g. {name}=0")
    return int(text)


def site(loaded: Loaded, *, pools_only: bool = False) -> Site:
    """Where work runs. ``pools_only`` asks about the manifest's pools whatever the target is."""
    from scalable.planning import Site

    target = None if pools_only and loaded.manifest.pools else loaded.target
    return Site(loaded.manifest, target, this_machine())


def this_machine() -> Machine:
    from scalable.planning import Machine

    allowed = getattr(os, "sched_getaffinity", None)  # Linux: the CPUs this process may use, not all there are
    cpus = len(allowed(0)) if allowed else os.cpu_count() or 1
    return Machine(Cpu.of(cpus), Memory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))


def history(env: Mapping[str, str] = os.environ) -> History:
    """What earlier runs in this folder measured, if there are any."""
    from scalable.planning import History

    path = Path(env.get("SCALABLE_RUNS_DIR") or ".scalable/runs") / "history.json"
    if not path.exists():
        return History()
    try:
        return History.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, OSError, RecursionError) as error:
        raise PlanningError(f"{path}: {error}") from None
