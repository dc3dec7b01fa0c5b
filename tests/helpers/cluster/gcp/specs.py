"""Work on Compute Engine, end to end against a stand-in that answers as Google does and really runs the workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scalable.cluster.base import DeploymentSpec
from scalable.manifest.targets import GcpTarget
from tests.helpers.cluster.gcp.google import PROJECT, ZONE
from tests.helpers.cluster.scenes import PARTS


def a_spec(folder: Path, **more: Any) -> DeploymentSpec:
    target = {
        "provider": "gcp",
        "project_id": PROJECT,
        "zone": ZONE,
        "image": "lab/worker:1.0",
        "contact_address": "127.0.0.1",
        "service_account": "worker@lab.example",
        **more,
    }
    return DeploymentSpec("lab", "cloud", GcpTarget.model_validate(target), PARTS, run_folder=str(folder))
