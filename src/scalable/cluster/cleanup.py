"""``python -m scalable.cluster.cleanup BACKEND …``: remove all that a run left in a cloud or a Kubernetes cluster.

Runs by itself after a driver that was killed. Says what is left and fails while anything is, so that it is tried again.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence

from scalable.cluster.clouds.fleet import CloudError, Fleet
from scalable.errors import ScalableError
from scalable.manifest.targets import AwsTarget, GcpTarget

WITHIN_S = 20.0  # the reaper waits 30 s, and then has it tried again
CLOUDS = {"aws": ("region",), "gcp": ("project", "zone")}
"""Options without which a cloud's things are not found."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = vars(parser().parse_args(arguments))
    try:
        left = CLEAR[options.pop("backend")](**options)
    except (CloudError, ScalableError) as error:
        left = [str(error)]
    for name in left:
        print(f"still there: {name}", file=sys.stderr)
    return 1 if left else 0


def command(backend: str, *arguments: str) -> list[str]:
    """Return the command line that starts this program."""
    return [sys.executable, "-P", "-m", "scalable.cluster.cleanup", backend, *arguments]


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m scalable.cluster.cleanup", description=__doc__)
    backends = whole.add_subparsers(dest="backend", required=True)
    for cloud, needed in CLOUDS.items():
        part = backends.add_parser(cloud)
        for name in ("run", *needed):
            part.add_argument(f"--{name}", required=True)
        part.add_argument("--tag", action="append", default=[], help="a kind of worker that may have a secret")
    part = backends.add_parser("kubernetes")
    part.add_argument("parent", help="the ConfigMap that owns everything of the run")
    part.add_argument("--namespace", required=True)
    for name in ("kubeconfig", "context", "url"):
        part.add_argument(f"--{name}")
    return whole


def clear_aws(run: str, region: str, tag: Iterable[str]) -> list[str]:
    from scalable.cluster.aws.ec2 import Ec2Fleet
    from scalable.cluster.aws.fargate import FargateFleet

    target = AwsTarget(provider="aws", region=region)
    left = []
    for fleet in (FargateFleet, Ec2Fleet):
        try:
            left += cleared(fleet(target, run, ""), tag)
        except CloudError as error:
            left.append(str(error))
    return left


def clear_gcp(run: str, project: str, zone: str, tag: Iterable[str]) -> list[str]:
    from scalable.cluster.gcp.provider import GcpFleet

    return cleared(GcpFleet(GcpTarget(provider="gcp", project_id=project, zone=zone), run, ""), tag)


def cleared(fleet: Fleet, tags: Iterable[str]) -> list[str]:
    """Remove what a fleet has made; names what is left."""
    fleet.kinds.update(tags)
    return fleet.clear()


def clear_kubernetes(parent: str, **cluster: str | None) -> list[str]:
    """Delete the parent, which has the cluster delete all it owns.

    That includes what was being created at that moment, as soon as the cluster sees that its owner is gone.
    """
    from scalable.cluster.kubernetes.api import Cluster, Kube

    async def delete() -> None:
        kube = Kube(Cluster(**cluster))  # type: ignore[arg-type]
        try:
            await kube.delete("configmaps", parent, within=WITHIN_S)
        finally:
            await kube.close()

    asyncio.run(delete())
    return []


CLEAR: dict[str, Callable[..., list[str]]] = {"aws": clear_aws, "gcp": clear_gcp, "kubernetes": clear_kubernetes}

if __name__ == "__main__":
    sys.exit(main())
