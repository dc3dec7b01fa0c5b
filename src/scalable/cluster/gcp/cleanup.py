"""``python -m scalable.cluster.gcp.cleanup --project P --zone Z --run ID --tag TAG``: remove all that a run left.

Runs by itself after a driver that was killed. Says what is left and fails while anything is.
"""

from __future__ import annotations

import argparse
import sys

from scalable.cluster.clouds.fleet import CloudError
from scalable.cluster.gcp.provider import GcpFleet
from scalable.manifest.targets import GcpTarget


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scalable.cluster.gcp.cleanup", description=__doc__)
    parser.add_argument("--run", required=True, help="the value of the label scalable-run")
    parser.add_argument("--project", required=True)
    parser.add_argument("--zone", required=True)
    parser.add_argument("--tag", action="append", default=[], help="a kind of worker that may have a secret")
    options = parser.parse_args(arguments)
    target = GcpTarget(provider="gcp", project_id=options.project, zone=options.zone)
    try:
        fleet = GcpFleet(target, options.run, "")
        fleet.kinds.update(options.tag)
        left = fleet.clear()
    except CloudError as error:
        left = [str(error)]
    for one in left:
        print(f"still there: {one}", file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
