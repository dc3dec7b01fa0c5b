"""A real API server, scheduler and controllers for the tests in this folder, with nodes that are played.

``cluster`` is the one that ``KUBECONFIG`` names if ``kube-up`` has made it, else one that is started around the
binaries in ``$KUBEBUILDER_ASSETS`` or ``PATH`` and shared by a pytest worker's tests. ``kube`` is a namespace in it for
one test, with an account that has the rights a driver needs and no others. Without the binaries, tests are skipped.
"""

from __future__ import annotations

from tests.helpers.kubernetes.naps import NapPool
from tests.tools.kube import Settings

SLOW = NapPool("slow", provision_s=8, idle_s=5, most=2)
POOLS = Settings(
    pools={
        "steady": "2:cpu=4,memory=8Gi",
        "fragile": "2:cpu=4,memory=8Gi",  # for tests that crash nodes
        "burst": "0:cpu=4,memory=8Gi",
        SLOW.name: "0:cpu=1,memory=4Gi",  # whose nodes take longer than a worker that finds its node there
        "ftf": "0:cpu=15600m,memory=60Gi",  # what the example's nodes have for pods
    },
    autoscale={"burst": "0:3:2:3", SLOW.name: SLOW.settings, "ftf": "0:6:0.5:1"},
)
