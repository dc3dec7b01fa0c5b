"""The contract of all providers, kept on a real Slurm."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest
from distributed.core import Status

from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.slurm.provider import SlurmProvider
from scalable.manifest.targets import SlurmTarget
from scalable.quantities import Memory
from scalable.testing.providers import ProviderContract
from tests.helpers.paths import ROOT
from tests.helpers.slurm.clusters import use
from tests.tools.slurm import PrivateSlurm

MEMORY = Memory.parse("500M")
TARGET = {"provider": "slurm", "queue": "main", "interface": "lo", "cpu_price": "0.02 EUR/h", "walltime": "00:30:00"}


class TestSlurmProvider(ProviderContract):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def this_slurm(cls, shared_slurm: PrivateSlurm) -> Iterator[PrivateSlurm]:
        with pytest.MonkeyPatch.context() as monkeypatch:
            use(shared_slurm, monkeypatch)
            monkeypatch.setenv("PYTHONPATH", str(ROOT))  # nodes need this class
            yield shared_slurm
        shared_slurm.reset()

    @pytest.fixture(scope="class")
    @classmethod
    def provider(cls) -> SlurmProvider:
        return SlurmProvider()

    @pytest.fixture(scope="class")
    @classmethod
    def spec(cls, tmp_path_factory: pytest.TempPathFactory, this_slurm: PrivateSlurm) -> DeploymentSpec:
        folder = tmp_path_factory.mktemp("project")
        components = {
            "demeter": WorkerTemplate("demeter", cpus=1, memory=MEMORY, env={"GREETING": "it's ${HOME} ü"}),
            "xanthos": WorkerTemplate("xanthos", cpus=2, memory=MEMORY, env={"GREETING": "other"}),
        }
        return DeploymentSpec("contract", "hpc", SlurmTarget(**TARGET), components, folder=str(folder))

    @pytest.fixture
    def refused_spec(self, spec: DeploymentSpec) -> DeploymentSpec:
        huge = replace(spec.components["xanthos"], cpus=99)
        return replace(spec, components={**spec.components, "xanthos": huge})

    def left_behind(self) -> list[str]:
        """Jobs that belong to no cluster that is still open."""
        open_ones = [cluster for cluster in TaggedCluster._instances if cluster.status is Status.running]
        known = {member.launched.job for cluster in open_ones for member in list(cluster.members.values())}
        jobs = subprocess.run(["squeue", "--noheader", "--format=job %A"], capture_output=True, text=True, check=True)
        return [job for job in jobs.stdout.splitlines() if job not in known]
