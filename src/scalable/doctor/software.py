"""Python, the packages a run needs, and whether the target's provider can be used here."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

from packaging.requirements import InvalidRequirement, Requirement

from scalable.cluster.base import DeploymentProvider, DeploymentSpec, get_provider
from scalable.doctor.checks import fail, ok
from scalable.errors import ScalableError
from scalable.findings import Finding
from scalable.manifest.models import Manifest

NEEDED = {
    "slurm": ("cryptography",),
    "kubernetes": ("cryptography", "kr8s"),
    "aws": ("boto3", "cryptography"),
    "gcp": ("google.auth", "requests", "cryptography"),
}
"""Modules that a provider imports; they come with the extra of its name."""
WORKLOAD = ("numpy", "pandas", "polars", "scipy", "sklearn", "xgboost", "optuna", "cleanlab")
"""Modules of the trading workload, which come with the extra ``finetune``."""


def versions() -> Iterator[Finding]:
    """Check whether the packages are there in versions that go together."""
    installed_versions = {name: installed(name) for name in ("scalable", "dask", "distributed")}
    listed_versions = ", ".join(f"{name} {number}" for name, number in installed_versions.items() if number)
    wrong = [problem for text in requires("scalable") or () if (problem := unmet(text))]
    text = f"Python {platform.python_version()}, {listed_versions}"
    if wrong:
        yield fail("packages", f"{text}; {'; '.join(wrong)}", "pip install --upgrade scalable")
    elif installed_versions["dask"] != installed_versions["distributed"]:
        remedy = f"pip install dask=={installed_versions['distributed']}"
        yield fail("packages", f"{text}: dask and distributed must have the same version", remedy)
    else:
        yield ok("packages", text)


def unmet(requirement: str) -> str:
    """Return what is wrong with an installed package; empty if nothing is, or if it belongs to an extra."""
    try:
        needed = Requirement(requirement)
    except InvalidRequirement:
        return ""
    if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
        return ""
    there = installed(needed.name)
    if there is None:
        return f"{needed.name} is not installed"
    return "" if needed.specifier.contains(there, prereleases=True) else f"{needed} is needed, not {there}"


def importable(module: str) -> bool:
    with suppress(ModuleNotFoundError):  # a package that it lies in is missing
        return find_spec(module) is not None
    return False


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def provider(spec: DeploymentSpec) -> tuple[DeploymentProvider | None, list[Finding]]:
    name = spec.target.provider
    missing = [module for module in NEEDED.get(name, ()) if not importable(module)]
    if missing:
        text = f"{name} needs {', '.join(missing)}, which is not installed"
        return None, [fail("provider", text, f"pip install 'scalable[{name}]'")]
    try:
        known = get_provider(name)
    except (ScalableError, ImportError) as error:
        return None, [fail("provider", f"{name} cannot be used: {error}", "choose another target")]
    return known, [ok("provider", f"{name} for target {spec.target_name}")]


def workload(manifest: Manifest, spec: DeploymentSpec) -> Iterator[Finding]:
    """Check whether what sweeps without a function of their own compute with is there, unless an image has it."""
    if all(sweep.run is not None for sweep in manifest.sweeps.values()) or getattr(spec.target, "code", "") == "image":
        return
    if missing := [module for module in WORKLOAD if not importable(module)]:
        text = f"the trading workload needs {', '.join(missing)}, which is not installed"
        yield fail("workload", text, "pip install 'scalable[finetune]'")
