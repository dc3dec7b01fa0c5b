"""A real API server, scheduler and controllers for the tests in this folder, with nodes that are played.

``cluster`` is the one that ``KUBECONFIG`` names if ``kube-up`` has made it, else one that is started around the
binaries in ``$KUBEBUILDER_ASSETS`` or ``PATH`` and shared by a pytest worker's tests. ``kube`` is a namespace in it for
one test, with an account that has the rights a driver needs and no others. Without the binaries, tests are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import NO_CLUSTER
from tests.helpers.kubernetes.helpers import Namespace, Project
from tests.helpers.kubernetes.pools import POOLS
from tests.helpers.settings import remove_settings
from tests.tools.errors import ToolMissingError
from tests.tools.kube import PrivateKube, running


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateKube]:
    given = Path(os.environ.get("KUBECONFIG") or "/nowhere/kubeconfig")
    if (given.parent / "cluster.json").exists():  # nodes of any other cluster are not ours to crash
        kube = PrivateKube(given.parent)
        kube.start(POOLS)
        yield kube
        return
    try:
        with running(tmp_path_factory.mktemp("kube") / "cluster", POOLS) as kube:
            yield kube
    except ToolMissingError as error:
        pytest.skip(f"{NO_CLUSTER}: {error}")


@pytest.fixture
def kube(cluster: PrivateKube, tmp_path: Path) -> Iterator[Namespace]:
    """A namespace whose account may do what a driver needs to, and nothing else."""
    with Namespace.made(cluster, tmp_path) as namespace:
        yield namespace


@pytest.fixture
def project(kube: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A user's folder, and this process in it, with the account of the namespace."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    remove_settings(monkeypatch)
    monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig))
    return Project(folder, kube)
