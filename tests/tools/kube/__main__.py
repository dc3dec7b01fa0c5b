"""``python -m tests.tools.kube guard FOLDER`` stops the cluster in a folder when standard input ends."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.tools.kube import PrivateKube


def main(arguments: list[str]) -> int:
    match arguments:
        case ["guard", folder]:
            sys.stdin.buffer.read()
            PrivateKube(Path(folder)).stop()
            return 0
    print(f"{__doc__}; people use kube-up and kube-down", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
