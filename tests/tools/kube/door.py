"""A laptop that reaches nothing of a cluster but its API server: a network of its own with one door in the wall.

A socket in a folder can be used from both sides of the wall. Outside, a process passes what comes through it on to the
API server; inside, another one listens where the API server would and passes everything through it.
``python -m tests.tools.kube.door FROM TO`` is both of them, each end being unix:PATH or tcp:HOST:PORT.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.tools.kube.client import KubeClient

ROOT = Path(__file__).parent.parent.parent.parent
LOOK_EVERY_S = 0.2  # at whether those whose door this is are still there
READY_S = 30.0


@contextmanager
def behind_a_wall(kubeconfig: Path) -> Iterator[list[str]]:
    """The beginning of a command line that runs the rest of it on such a laptop."""
    address = urlsplit(KubeClient(kubeconfig).cluster["server"]).netloc
    with tempfile.TemporaryDirectory() as folder:
        way = f"unix:{folder}/door"
        outside = subprocess.Popen([sys.executable, "-m", __spec__.name, way, f"tcp:{address}"], cwd=ROOT)
        try:
            inside = shlex.join([sys.executable, "-m", __spec__.name, f"tcp:{address}", way])
            script = (
                f'ip link set lo up && cd {shlex.quote(str(ROOT))} && {{ {inside} & }} && cd "$OLDPWD" && exec "$@"'
            )
            yield ["unshare", "--net", "/bin/sh", "-c", script, "laptop"]
        finally:
            outside.kill()
            outside.wait()


async def serve(source: str, target: str) -> None:
    kind, _, where = source.partition(":")

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            theirs = await opened(target)
            await asyncio.gather(copied(reader, theirs[1]), copied(theirs[0], writer))
        writer.close()

    if kind == "unix":
        await asyncio.start_unix_server(passed_on, where)
    else:
        host, _, port = where.rpartition(":")
        await asyncio.start_server(passed_on, host, int(port))
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(LOOK_EVERY_S)


async def opened(where: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    kind, _, place = where.partition(":")
    if kind == "unix":
        return await asyncio.open_unix_connection(place)
    host, _, port = place.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
