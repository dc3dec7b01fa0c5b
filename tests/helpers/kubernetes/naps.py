"""Sweeps of sleeping jobs on an autoscaled pool: what they take is known, and a busy machine changes it little."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.kubernetes.helpers import IMAGE, Namespace

ASSETS = ("A", "B", "C", "D", "E")
SIZE = {"cpu": 1, "memory": "2GiB"}
CODE = """
import time
from scalable.sweeps.stages import stage
from scalable.sweeps.workload import Workload

@stage(reads=("asset", "depth"))
def fitted(*, asset, depth):
    time.sleep({job_s})
    return depth

@stage(reads=("cost_bps",), keep=False)
def row(fitted, *, cost_bps):
    return {{"score": fitted - cost_bps}}

work = Workload((fitted, row), unit="fitted")
"""


@dataclass(frozen=True, slots=True)
class NapPool:
    """A pool of nodes with one CPU each, which a worker fills."""

    name: str
    provision_s: float
    idle_s: float
    most: int
    price: float = 0.1644
    """Euros an hour."""

    @property
    def settings(self) -> str:
        """As ``kube-up --autoscale`` takes it."""
        return f"0:{self.most}:{self.provision_s:g}:{self.idle_s:g}"


def write_code(folder: Path, job_s: float) -> None:
    (folder / "naps.py").write_text(CODE.format(job_s=job_s), encoding="utf-8")


def naps(
    kube: Namespace, pool: NapPool, number: int, *, job_s: float, workers: int = 1, variants: int = 1, sweeps: int = 1
) -> dict[str, Any]:  # fmt: skip
    """Return a manifest with sweeps of five jobs for each variant; those of another ``number`` have no rows yet."""
    sweep = {
        "factor": "depth", "variants": list(range(1, variants + 1)), "folds": 1, "costs_bps": [1, 2],
        "run": "naps:work", "run_minutes": job_s / 60, "workers": workers, "profile": "small",
    }  # fmt: skip
    target = {
        "provider": "kubernetes", "namespace": kube.name, "image": IMAGE, "code": "upload",
        "adaptive": {"minimum": 0, "maximum": pool.most},
    }  # fmt: skip
    return {
        "version": 1,
        "project": {"name": "naps"},
        "nodes": {"small": {"cpu": 1, "memory": "4GiB", "price": f"{pool.price} EUR/h"}},
        "pools": {
            pool.name: {
                "node": "small", "min": 0, "max": pool.most, "provision": f"{pool.provision_s:g}s",
                "idle": f"{pool.idle_s:g}s", "labels": {"pool": pool.name},
            }
        },
        "profiles": {"small": {"request": SIZE, "limit": SIZE, "peak": "1GiB"}},
        "policies": {"retry": {"times": 1, "delay": "5s"}},
        "store": f"sqlite:///results-{number}.db",
        "artefacts": f"{kube.shared}/artefacts-{number}",
        "sweeps": {
            f"naps-{place}": {**sweep, "assets": [f"{asset}{place}" for asset in ASSETS]} for place in range(sweeps)
        },
        "targets": {"there": target},
    }  # fmt: skip
