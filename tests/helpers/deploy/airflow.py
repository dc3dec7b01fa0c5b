"""The rendered DAG, loaded with stand-ins that remember what they were told; Airflow itself is in tests/system."""

from __future__ import annotations

from typing import Any

import yaml

from scalable.manifest import load_text
from scalable.manifest.models import Manifest

IMAGE = "registry.lab/sweeps:1.4"

SECRET = {"secret": "store", "key": "url"}

CLUSTER = {"provider": "kubernetes", "image": IMAGE, "env": {"SCALABLE_STORE_URL": SECRET}}

POOLS = {
    "nodes": {"M": {"cpu": 16, "memory": "64GiB", "allocatable": {"cpu": 15.6, "memory": "60GiB"}}},
    "pools": {
        "compute": {
            "node": "M", "min": 0, "max": 6, "labels": {"pool": "compute"},
            "tolerations": [{"key": "sweeps", "operator": "Exists"}],
        },
    },
}  # fmt: skip

SWEEPS = {
    "calibration": {"factor": "calibration", "assets": ["AAVEUSDC", "UNI/USDC", "UNI USDC"], "trials": 2},
    "n_features": {"factor": "n_features", "assets": ["AAVEUSDC"], "trials": 2},
}


def manifest(**sections: Any) -> Manifest:
    target = {**CLUSTER, **sections.pop("target", {})}
    whole = {
        "version": 1, "project": {"name": "lab"}, "targets": {"cluster": target, "here": {"provider": "local"}},
        "sweeps": SWEEPS, **POOLS, **sections,
    }  # fmt: skip
    return load_text(yaml.safe_dump(whole, sort_keys=False), env={}).manifest
