"""``scalable doctor`` on this machine: what it finds before a run, what it says to do, and that it leaves no trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from scalable.cluster.base import DeploymentSpec
from scalable.doctor import nodes
from scalable.doctor.checks import Case
from scalable.findings import Finding
from scalable.manifest import load_text
from scalable.manifest.targets import SlurmTarget

GOOD = """
version: 1
project: {name: lab}
targets: {here: {provider: local, max_workers: 2, processes: true}}
components:
  model: {memory: 1GiB}
  report: {}
"""

FAR = "n1|203.0.113.7\nn2|203.0.113.8\n"


def a_case(tmp_path: Path, **target: Any) -> tuple[Case, SlurmTarget]:
    text = "version: 1\nproject: {name: far}\ntargets: {hpc: {provider: slurm}}\ncomponents: {model: {}}\n"
    manifest = load_text(text, "scalable.yaml", env={}).manifest
    spec = DeploymentSpec.from_manifest(manifest, target_name="hpc", folder=str(tmp_path))
    chosen = SlurmTarget.model_validate({"provider": "slurm", **target})
    return Case(manifest, replace(spec, target=chosen), [{"model": 1}]), chosen


def looked_at(tmp_path: Path, listing: str = FAR, **target: Any) -> dict[str, Finding]:
    return {check.code: check for check in nodes.checks(*a_case(tmp_path, **target), listing)}
