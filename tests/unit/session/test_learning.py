"""What a sweep on a real local cluster teaches the next plan, and what its workers believe of this machine."""

from __future__ import annotations

import pytest

from scalable.cluster.base import DeploymentSpec
from tests.helpers.session.builders import Project


@pytest.mark.parametrize(("cores", "workers", "cpus"), [(2, 2, 1), (2, 1, 2), (1, 3, 1), (16, 2, 4), (64, 2, 4)])
def test_a_worker_has_an_equal_part_of_the_cores_up_to_its_profiles_limit(
    project: Project, monkeypatch: pytest.MonkeyPatch, cores: int, workers: int, cpus: int
) -> None:
    monkeypatch.setattr("scalable.cluster.base.usable_cpus", lambda: cores)
    sweep = {"factor": "size", "variants": [1], "assets": ["A"], "run": "m:f"}
    session = project.session(components={}, sweeps={"trial": sweep}, target={"max_workers": workers})
    assert session.spec().components["standard"].cpus == cpus
    nowhere = DeploymentSpec.from_manifest(session.manifest, target_name=None)
    assert nowhere.components["standard"].cpus == 1, "without a target there may be a worker on every core"


def test_a_component_has_the_cpus_it_says(project: Project) -> None:
    session = project.session(components={"model": {"cpus": 64}}, target={"max_workers": 2})
    assert session.spec().components["model"].cpus == 64
