"""``scalable admin cache``: what is kept of stages, its size, and its removal by age, size and reachability.

It is about artefacts only; what ``@cacheable`` keeps is in a folder of its own, to be removed like any folder.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from scalable.cli import context
from scalable.cli.output import Cell, console, print_json, show_table, working
from scalable.errors import QuantityError, UsageError
from scalable.manifest.load import read
from scalable.quantities import Duration, Memory, Quantity
from scalable.store.artefacts import DEFAULT, Artefact, Artefacts, Collected, open_artefacts
from scalable.sweeps.loading import artefacts_url
from scalable.wording import plural

CONDITIONS = ("older_than", "max_size", "unreachable")


@dataclass(frozen=True, slots=True)
class StageSize:
    """What is kept of one stage; times are seconds since 1970."""

    stage: str
    count: int
    bytes: int
    oldest: float
    newest: float
    used: float


def run(options: argparse.Namespace) -> int:
    artefacts = open_artefacts(checked(place(options)))
    return list_artefacts(artefacts, options) if options.action == "ls" else collected(artefacts, options)


def place(options: argparse.Namespace) -> str:
    """Return the one named, else the manifest's, else where artefacts are kept if nothing is said."""
    if options.artefacts:
        return str(options.artefacts)
    path = context.manifest_path(options.manifest)
    named = options.manifest or os.environ.get("SCALABLE_MANIFEST")
    if not named and not path.exists():
        return DEFAULT
    return artefacts_url(context.load_named(read(path), str(path), None, None).manifest)


def checked(url: str) -> str:
    if "://" not in url and Path(url).exists() and not Path(url).is_dir():
        raise UsageError(
            f"artefacts: {url} is a file; name a folder, e.g. {DEFAULT}, or a URL such as s3://bucket/folder"
        )
    return url


def list_artefacts(artefacts: Artefacts, options: argparse.Namespace) -> int:
    if given := [name for name in (*CONDITIONS, "dry_run") if getattr(options, name)]:
        flag = f"--{given[0].replace('_', '-')}"
        raise UsageError(f"{flag} is for removing; write  scalable admin cache gc {flag}")
    with working("looking at artefacts"):
        stages = by_stage(artefacts.list())
    count, size = sum(stage.count for stage in stages), sum(stage.bytes for stage in stages)
    if options.format == "json":
        content = {"place": artefacts.url, "stages": [asdict(stage) for stage in stages], "count": count, "bytes": size}
        print_json(content)
        return 0
    screen = console()
    if not stages:
        screen.print(f"no artefacts in {artefacts.url}", soft_wrap=True)
        return 0
    screen.print(f"{plural(count, 'artefact')}, {Memory(size)}, in {artefacts.url}", style="bold", soft_wrap=True)
    rows: list[list[Cell]] = [
        [stage.stage, str(stage.count), str(Memory(stage.bytes)), *map(ago, (stage.oldest, stage.newest, stage.used))]
        for stage in stages
    ]
    show_table(screen, ("stage", ">count", ">size", "oldest", "newest", "last used"), rows, indent=2)
    return 0


def ago(when: float) -> str:
    return f"{Duration(max(0.0, round(time.time() - when)))} ago"


def by_stage(artefacts: Iterable[Artefact]) -> list[StageSize]:
    """Return the largest first."""
    groups: dict[str, list[Artefact]] = defaultdict(list)
    for artefact in artefacts:
        groups[artefact.stage].append(artefact)
    stages = [
        StageSize(
            stage,
            count=len(group),
            bytes=sum(artefact.bytes for artefact in group),
            oldest=min(artefact.written for artefact in group),
            newest=max(artefact.written for artefact in group),
            used=max(artefact.used for artefact in group),
        )
        for stage, group in groups.items()
    ]
    return sorted(stages, key=lambda artefact: (-artefact.bytes, artefact.stage))


def collected(artefacts: Artefacts, options: argparse.Namespace) -> int:
    age = quantity(Duration, "--older-than", options.older_than)
    size = quantity(Memory, "--max-size", options.max_size)
    with working("removing artefacts"):
        result = artefacts.collect(
            older_than_s=None if age is None else age.seconds,
            keep_bytes=None if size is None else size.bytes,
            reachable=reachable(options.manifest) if options.unreachable else None,
            dry_run=options.dry_run,
        )
    if options.format == "json":
        gone = {stage.stage: {"count": stage.count, "bytes": stage.bytes} for stage in by_stage(result.removed)}
        counts = {name: getattr(result, name) for name in ("bytes", "kept", "in_use", "leftovers")}
        print_json(
            {
                "place": artefacts.url,
                "dry_run": options.dry_run,
                "removed": len(result.removed),
                **counts,
                "stages": gone,
            }
        )
    else:
        tell(artefacts, result, options)
    return 0


def tell(artefacts: Artefacts, result: Collected, options: argparse.Namespace) -> None:
    screen = console()
    verb = "would remove" if options.dry_run else "removed"
    leftovers = f" and {plural(result.leftovers, 'leftover')} of interrupted work" if result.leftovers else ""
    in_use = f", {result.in_use} of them only because they are in use" if result.in_use else ""
    screen.print(
        f"{verb} {plural(len(result.removed), 'artefact')}{leftovers}, {Memory(result.bytes)}, from {artefacts.url}; "
        f"{result.kept} kept{in_use}",
        soft_wrap=True,
    )
    rows: list[list[Cell]] = [
        [stage.stage, str(stage.count), str(Memory(stage.bytes))] for stage in by_stage(result.removed)
    ]
    if rows:
        show_table(screen, ("stage", ">count", ">size"), rows, indent=2)
    if not any(getattr(options, name) for name in CONDITIONS):
        screen.print(
            "  say which artefacts may go: --older-than 7d, --max-size 10GB, --unreachable; several must all hold",
            style="dim",
            soft_wrap=True,
        )


Q = TypeVar("Q", bound=Quantity)


def quantity(kind: type[Q], flag: str, text: str | None) -> Q | None:
    try:
        return None if text is None else kind.parse(text)
    except QuantityError as error:
        raise UsageError(f"{flag}: {error}") from None


def reachable(manifest: str | None) -> set[str]:
    """Keys of what the manifest's sweeps would use if they were run now, on top of what is locked in the store."""
    from scalable.session.session import ScalableSession
    from scalable.sweeps.compiling import reachable as keys_of
    from scalable.sweeps.loading import importable

    session = ScalableSession.from_yaml(context.manifest_path(manifest))
    with session.open_store() as store, importable(Path(session.path).resolve().parent):
        return keys_of(session.manifest, store.config().base_env)
