"""Workers of this machine, as processes and as threads, do what every provider must do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from distributed import get_worker

from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.cluster.local import LocalProvider
from scalable.manifest.targets import LocalTarget
from scalable.quantities import Memory, Price
from scalable.testing.providers import ProviderContract


def a_spec(folder: Path, *, processes: bool) -> DeploymentSpec:
    target = LocalTarget(
        provider="local", max_workers=4, processes=processes, cpu_price=Price.parse("0.05 EUR/h"), threads_per_worker=2
    )
    small = WorkerTemplate("small", cpus=2, memory=Memory.parse("2GiB"), slots=2, env={"WHO": "the small one"})
    large = WorkerTemplate("large", cpus=6, slots=2, env={"WHO": "the large one", "EMPTY": ""})
    return DeploymentSpec("contract", "here", target, {"small": small, "large": large}, run_folder=str(folder))


class TestProcesses(ProviderContract):
    @pytest.fixture(scope="class")
    @classmethod
    def provider(cls) -> LocalProvider:
        return LocalProvider()

    @pytest.fixture(scope="class")
    @classmethod
    def spec(cls, tmp_path_factory: pytest.TempPathFactory) -> DeploymentSpec:
        return a_spec(tmp_path_factory.mktemp("run"), processes=True)

    @pytest.fixture
    def refused_spec(self, spec: DeploymentSpec, tmp_path: Path) -> DeploymentSpec:
        script = tmp_path / "wrong.py"
        script.write_text("raise RuntimeError('this site has no licence')")
        bad = replace(spec.components["large"], preload_script=str(script))
        return replace(spec, components={**spec.components, "large": bad})


class TestThreads(TestProcesses):
    own_processes = False

    @staticmethod
    def die() -> None:
        worker = get_worker()
        worker.loop.add_callback(worker.close, executor_wait=False, nanny=False)

    @pytest.fixture(scope="class")
    @classmethod
    def spec(cls, tmp_path_factory: pytest.TempPathFactory) -> DeploymentSpec:
        return a_spec(tmp_path_factory.mktemp("run"), processes=False)
