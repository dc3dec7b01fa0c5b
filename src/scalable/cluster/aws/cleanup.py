"""``python -m scalable.cluster.aws.cleanup --region R --run ID --tag TAG``: remove all that a run left in AWS.

Runs by itself after a driver that was killed. Says what is left and fails while anything is.
"""

from __future__ import annotations

import argparse
import sys

from scalable.cluster.aws.ec2 import Ec2Fleet
from scalable.cluster.aws.fargate import FargateFleet
from scalable.cluster.clouds.fleet import CloudError, Fleet
from scalable.manifest.targets import AwsTarget


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scalable.cluster.aws.cleanup", description=__doc__)
    parser.add_argument("--run", required=True, help="the value of the tag scalable-run")
    parser.add_argument("--region", required=True)
    parser.add_argument("--tag", action="append", default=[], help="a kind of worker that may have a secret")
    options = parser.parse_args(arguments)
    target = AwsTarget(provider="aws", region=options.region)
    left = []
    for kind in (FargateFleet, Ec2Fleet):
        try:
            fleet: Fleet = kind(target, options.run, "")
            fleet.kinds.update(options.tag)
            left += fleet.clear()
        except CloudError as error:
            left.append(str(error))
    for one in left:
        print(f"still there: {one}", file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
