"""``python -m scalable.cluster.kubernetes.relay``: see ``scalable.cluster.kubernetes.relay.server``."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from scalable.cluster.kubernetes.relay.server import say, serve

CANNOT_START = 2  # as for any other mistake on a command line
LEAST_TOKEN = 16  # bytes; fewer can be guessed


class Mistake(Exception):  # noqa: N818
    """Something on the command line that cannot work."""


def place(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``; the host may be in brackets, and without one all addresses are meant."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no place; write HOST:PORT, for example 0.0.0.0:8786")
    return host.strip("[]"), int(port)


def token(file: Path) -> bytes:
    try:
        secret = file.read_bytes().strip()
    except OSError as error:
        raise Mistake(f"the token cannot be read from {file}: {str(error.strerror).lower()}") from None
    if len(secret) < LEAST_TOKEN:
        raise Mistake(f"the token in {file} has {len(secret)} bytes; the driver writes one of 64")
    return secret


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scalable.cluster.kubernetes.relay",
        description="Lets a driver outside a cluster and its workers inside meet.",
    )
    parser.add_argument("--listen", type=place, required=True, metavar="HOST:PORT", help="where workers connect")
    parser.add_argument("--control", type=place, required=True, metavar="HOST:PORT", help="where the driver connects")
    parser.add_argument("--token", type=Path, required=True, metavar="FILE", help="with the secret of the driver")
    options = parser.parse_args()
    try:
        return asyncio.run(serve(options.listen, options.control, token(options.token)))
    except Mistake as mistake:
        say(str(mistake))
    except OSError as error:
        say(f"cannot listen on {options.listen} and {options.control}: {error.strerror or error}")
    return CANNOT_START


if __name__ == "__main__":
    sys.exit(main())
