"""What commands share: which manifest, target and seed are meant, and what was measured before.

The planner is imported only by those who plan, so that the others stay quick.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from scalable.cli.settings import impossible
from scalable.errors import UsageError
from scalable.manifest import Loaded, load_text
from scalable.manifest.load import read
from scalable.manifest.targets import installed_providers
from scalable.observe.folders import find_manifest, project_folder
from scalable.session.machine import history, site_of
from scalable.store import Store, open_store
from scalable.sweeps.loading import open_results
from scalable.wording import undefined

if TYPE_CHECKING:
    from scalable.planning.pins import Pin
    from scalable.planning.site import Site


def load(options: argparse.Namespace, env: Mapping[str, str] = os.environ) -> Loaded:
    path = manifest_path(options.manifest, env)
    return load_whole(read(path), str(path), options.target, options.overlay, env)


def load_whole(
    text: str, file: str, target: str | None, overlay: str | None, env: Mapping[str, str] = os.environ
) -> Loaded:
    """For who is going to plan or run: refused, too, if the shipped workload cannot do what a sweep says."""
    return load_text(
        text, file, env=env, target=target or env.get("SCALABLE_TARGET") or None, overlay=overlay,
        providers=installed_providers(), further=impossible,
    )  # fmt: skip


def load_named(
    text: str, file: str, target: str | None, overlay: str | None, env: Mapping[str, str] = os.environ
) -> Loaded:
    """For who looks at what is there, which a sweep that cannot run does not take away."""
    target = target or env.get("SCALABLE_TARGET") or None
    return load_text(text, file, env=env, target=target, overlay=overlay, providers=installed_providers())


def opened_store(options: argparse.Namespace) -> Store:
    """Open the store that is there, for who works with its content; where the environment names it, no manifest."""
    path = manifest_path(options.manifest)
    if url := os.environ.get("SCALABLE_STORE_URL"):
        return open_store(url, folder=project_folder(path), create=False)
    return open_results(load_named(read(path), str(path), None, None).manifest, create=False)


def manifest_path(named: str | None, env: Mapping[str, str] = os.environ) -> Path:
    return find_manifest(named, env)


def chosen(options: argparse.Namespace) -> dict[str, str]:
    """Return the values of axes that rows are asked for by; ``--asset A`` is short for ``--where asset=A``."""
    where: dict[str, str] = {}
    asset = getattr(options, "asset", None)
    for written in (*(options.where or ()), *([f"asset={asset}"] if asset else ())):
        axis, equals, value = written.partition("=")
        if not equals or not axis.strip() or not value.strip():
            raise UsageError(f"--where {written}: name an axis and its value, e.g. --where dataset=wine")
        if where.setdefault(axis.strip(), value.strip()) != value.strip():
            raise UsageError(
                f"--where {axis.strip()}: {where[axis.strip()]} and {value.strip()}; a row has one of them"
            )
    return where


def seed(options: argparse.Namespace) -> int:
    name = "--seed" if options.seed is not None else "SCALABLE_SEED"
    text = options.seed if options.seed is not None else os.environ.get("SCALABLE_SEED") or "0"
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise UsageError(f"{name} is {text!r}; write a whole number from 0, e.g. {name}=0")
    return int(text)


def site(options: argparse.Namespace, loaded: Loaded, pin: Pin | None = None, *, pools_only: bool = False) -> Site:
    """Return where work runs. ``pools_only`` asks about the manifest's pools whatever the target is."""
    target = None if pools_only and loaded.manifest.pools else loaded.target
    manifest = pin.applied(loaded.manifest) if pin is not None else loaded.manifest
    return site_of(manifest, target, manifest_path(options.manifest).resolve().parent, pin)


def with_profile(loaded: Loaded, sweep: str, profile: str | None) -> Loaded:
    """Return the manifest with this profile for a sweep, if one is given."""
    if not profile:
        return loaded
    manifest = loaded.manifest
    if profile not in manifest.profiles:
        raise UsageError(undefined("profile", profile, manifest.profiles))
    sized = {sweep: manifest.sweeps[sweep].model_copy(update={"profile": profile})}
    return replace(loaded, manifest=manifest.model_copy(update={"sweeps": {**manifest.sweeps, **sized}}))


def pin(options: argparse.Namespace, loaded: Loaded) -> Pin | None:
    """Return what a rollback holds fast of this manifest."""
    from scalable.session.operate.rollback import PinScope, pin_of

    return pin_of(PinScope.of(manifest_path(options.manifest), loaded.target))


__all__ = [
    "history",
    "load",
    "load_named",
    "load_whole",
    "manifest_path",
    "opened_store",
    "pin",
    "seed",
    "site",
    "with_profile",
]
