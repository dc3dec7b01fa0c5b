"""Checks whether compute nodes reach this machine and see its folders, as far as that can be known from here."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from pathlib import Path

from scalable import proc
from scalable.cluster.network import interfaces, no_such_interface
from scalable.doctor.checks import Case, fail, ok, warn
from scalable.doctor.machine import nearest
from scalable.findings import Finding
from scalable.manifest.targets import SlurmTarget
from scalable.observe.folders import runs_dir
from scalable.wording import plural

SHARED = re.compile(
    r"nfs|lustre|gpfs|beegfs|ceph|glusterfs|panfs|wekafs|orangefs|pvfs|afs|cifs|smb|9p|fuse\.|virtiofs", re.IGNORECASE
)
"""Types of file systems that several machines usually see."""
RESOLVE_WITHIN_S = 2.0  # a name server that takes longer has other problems
DISCARD = 9  # a port to which nothing is sent


def checks(case: Case, target: SlurmTarget, listing: str) -> Iterator[Finding]:
    """Check the nodes; ``listing`` has a node and its address in each line."""
    pairs = dict(line.strip().split("|")[:2] for line in listing.splitlines() if "|" in line)
    far = elsewhere(pairs)
    if pairs:
        where = f"{len(far)} on other machines" if far else "all on this machine"
        yield ok("nodes", f"{plural(len(pairs), 'node')}, {where}")
    yield interface(target, far)
    yield port(target, far)
    if far:
        yield from folders(case, target)


def elsewhere(pairs: dict[str, str]) -> dict[str, str]:
    """Return nodes that are not this machine, by name, with their addresses."""
    own = {*interfaces().values(), "localhost", socket.gethostname(), socket.gethostname().partition(".")[0]}
    own_names = {name for name, address in pairs.items() if address in own or name in own or address.startswith("127.")}
    return {name: address for name, address in pairs.items() if name not in own_names}


def interface(target: SlurmTarget, far: dict[str, str]) -> Finding:
    """Return the address at which workers will look for the scheduler."""
    there = interfaces()
    usable = {name: address for name, address in there.items() if not address.startswith("127.")}
    choice = ", ".join(f"{name} ({address})" for name, address in usable.items()) or "none"
    if target.contact_address:
        return ok("interface", f"workers are told to connect to {target.contact_address}")
    if target.interface is not None and (problem := no_such_interface(target.interface)):
        return fail("interface", problem, "write one of those")
    chosen = there[target.interface] if target.interface else own_address()
    named = target.interface or next((name for name, address in there.items() if address == chosen), "?")
    if far and chosen.startswith("127."):
        text = f"{named} ({chosen}) is this machine's only; {plural(len(far), 'node')} cannot reach it"
        return fail("interface", text, f"write interface: with one of {choice}")
    way = route(next(iter(far.values()))) if far else ""
    if way and way != chosen:
        other = next((name for name, address in there.items() if address == way), "?")
        text = f"the scheduler would be at {named} ({chosen}), but nodes are reached through {other} ({way})"
        return warn("interface", text, f"write interface: {other} if workers do not connect")
    return ok("interface", f"{named} ({chosen})")


def own_address() -> str:
    """Return what Dask takes if no interface is named."""
    from distributed.utils import get_ip

    address: str = get_ip()  # type: ignore[no-untyped-call]
    return address


def route(address: str) -> str:
    """Return the address of ours from which a node is reached; empty if that cannot be found out soon."""

    def look() -> str:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, DISCARD))  # of a datagram socket: chooses the way, sends nothing
            own_address: str = probe.getsockname()[0]
            return own_address

    pool = ThreadPoolExecutor(1)
    try:
        with suppress(OSError, NotInTime):
            return pool.submit(look).result(RESOLVE_WITHIN_S)
        return ""
    finally:
        pool.shutdown(wait=False)


def port(target: SlurmTarget, far: dict[str, str]) -> Finding:
    if target.port is None:
        hint = "; if a firewall is between, write port: N with an open one" if far else ""
        return ok("port", f"any free one{hint}")
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", target.port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "ports go up to 65535"
        return fail("port", f"{target.port} cannot be used: {reason}", "write another port, or end who has it")
    return ok("port", f"{target.port} is free")


def folders(case: Case, target: SlurmTarget) -> Iterator[Finding]:
    """Check that nodes see the folders that workers read or write."""
    wanted = {"runs-folder": runs_dir(manifest=case.folder).absolute()}
    if target.code == "shared":
        wanted["project-folder"] = case.folder
    if target.logs_location:
        wanted["logs-folder"] = Path(target.logs_location).expanduser().absolute()
    remedies = {
        "runs-folder": "write SCALABLE_RUNS_DIR=FOLDER with one on a shared file system",
        "project-folder": "work in a shared folder, or write code: upload",
        "logs-folder": "write logs_location: with one on a shared file system",
    }
    mounts = mount_table()
    for name, path in wanted.items():
        kind = mount_type(nearest(path), mounts)
        if SHARED.search(kind):
            yield ok(f"shared-{name}", f"{path} is on {kind}")
        else:
            text = f"{path} is on {kind or 'a file system of unknown type'}, which other machines probably do not see"
            yield warn(f"shared-{name}", text, remedies[name])


def mount_table() -> list[tuple[str, str]]:
    """Return mount points and their types, the innermost last."""
    return sorted(((mount.point, mount.kind) for mount in proc.mounts()), key=lambda mount: len(mount[0]))


def mount_type(path: Path, mounts: list[tuple[str, str]]) -> str:
    resolved = path.resolve()
    inside = [kind for point, kind in mounts if resolved.is_relative_to(point)]
    return inside[-1] if inside else ""
