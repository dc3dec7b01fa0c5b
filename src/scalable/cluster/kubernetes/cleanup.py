"""Deletes what a run left in a cluster: ``python -m scalable.cluster.kubernetes.cleanup PARENT --namespace=N``.

Run by the reaper when a driver was killed. To delete the parent is to delete all it owns, which the cluster itself then
does; it also deletes what was being created at that moment, as soon as it sees that its owner is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from scalable.cluster.kubernetes.api import Cluster, Kube
from scalable.errors import ScalableError

WITHIN_S = 20.0  # the reaper waits 30 s, and then has it tried again


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scalable.cluster.kubernetes.cleanup", description=__doc__)
    parser.add_argument("parent")
    parser.add_argument("--namespace", required=True)
    for name in ("kubeconfig", "context", "url"):
        parser.add_argument(f"--{name}")
    found = vars(parser.parse_args())
    try:
        asyncio.run(clean(found.pop("parent"), Cluster(**found)))
    except ScalableError as error:
        print(f"scalable: {error}", file=sys.stderr)
        return 1
    return 0


async def clean(parent: str, cluster: Cluster) -> None:
    kube = Kube(cluster)
    try:
        await kube.delete("configmaps", parent, within=WITHIN_S)
    finally:
        await kube.close()


if __name__ == "__main__":
    sys.exit(main())
