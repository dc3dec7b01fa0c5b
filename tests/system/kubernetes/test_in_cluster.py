"""The Job that ``scalable admin deploy kubernetes`` renders: driver and workers in the cluster, nobody outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from scalable.cli.main import main
from tests.helpers.kubernetes.helpers import Namespace, Project
from tests.helpers.sweeps.faults.trading import NAME, assert_same, naive, rows, write
from tests.helpers.waiting import eventually
from tests.tools.kube import KubeError

RUN_S = 150.0  # a driver's start, a sweep, and its end


def test_a_rendered_job_runs_a_sweep_in_the_cluster_and_leaves_only_itself(kube: Namespace, project: Project) -> None:
    state = kube.shared / "state"  # what the claim is a claim on
    state.mkdir()
    claimed(kube, state)
    file = write(project.folder, project.target(code="image", claim="state", adaptive={"minimum": 0, "maximum": 2}))
    manifest = yaml.safe_load(file.read_text())
    manifest |= {"store": "sqlite:///.scalable/results.db", "artefacts": f"{kube.shared}/artefacts"}
    file.write_text(yaml.safe_dump(manifest))
    assert (
        main(["admin", "deploy", "kubernetes", str(file), "--target", "here", "--sweep", NAME, "--output", "rendered"])
        == 0
    )
    kube.allow([])  # what is rendered brings its own rights
    for thing in rendered(project.folder / "rendered"):
        applied(kube, thing)
    eventually(lambda: ended(kube), lambda: f"the Job to end: {told(kube)}", RUN_S)
    assert ended(kube) == "Complete", told(kube)
    assert_same(rows(state), naive())
    eventually(lambda: not kube.workers(), lambda: f"{list(kube.workers())} to be gone")
    assert not [left for left in kube.left() if "scalable-" in left]


def rendered(folder: Path) -> list[dict[str, Any]]:
    files = sorted(file for file in folder.rglob("*.yaml") if file.name[0].isdigit())
    return [thing for file in files for thing in yaml.safe_load_all(file.read_text()) if thing]


def applied(kube: Namespace, thing: dict[str, Any]) -> None:
    """As kubectl would; the namespace and its driver's account are there already."""
    try:
        kube.admin.create(thing)
    except KubeError as error:
        if error.status != 409:
            raise


def claimed(kube: Namespace, folder: Path) -> None:
    size = {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    about = {"metadata": {"name": kube.name}, "spec": {"capacity": size, "hostPath": {"path": str(folder)}, **common}}
    kube.admin.create({"apiVersion": "v1", "kind": "PersistentVolume", **about})
    wanted = {"resources": {"requests": size}, "volumeName": kube.name, **common}
    kube.create("PersistentVolumeClaim", "state", spec=wanted)


def ended(kube: Namespace) -> str:
    (job,) = kube.admin.all("Job", kube.name)
    kinds = {one["type"] for one in job["status"].get("conditions", []) if one["status"] == "True"}
    return next((kind for kind in ("Complete", "Failed") if kind in kinds), "")


def told(kube: Namespace) -> str:
    pods = kube.pods("scalable/part=driver")
    texts = [kube.admin.log(pod["metadata"]["name"], kube.name) for pod in pods if pod["status"]["phase"] != "Pending"]
    return "\n".join(texts) + "".join(str(event.get("message")) + "\n" for event in kube.admin.all("Event", kube.name))
