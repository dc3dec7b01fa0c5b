"""``scalable admin forget``: a measured peak that is no longer true counts no more in later plans."""

from __future__ import annotations

import argparse

from scalable.cli import context
from scalable.cli.output import console, print_json
from scalable.manifest.load import read
from scalable.observe.folders import runs_dir
from scalable.observe.history import forget_peaks
from scalable.observe.sweep_progress import listing


def run(options: argparse.Namespace) -> int:
    gone = forget_peaks(runs_dir(manifest=options.manifest), **meant(options))
    if options.format == "json":
        print_json({"forgotten": gone})
        return 0
    screen = console()
    for entry in gone:
        circumstances = [entry[part] for part in ("run", "settings", "base") if entry.get(part)]
        of = f" ({'; '.join(circumstances)})" if circumstances else ""
        short = f", out of memory on {', '.join(entry['short'])}" if entry.get("short") else ""
        screen.print(f"forgot {entry['name']}{of}: {entry['peak'] or 'no peak'}{short}", markup=False, soft_wrap=True)
    if not gone:
        screen.print(f"no peak of {options.name} was measured" if options.name else "no peak was measured")
    return 0


def meant(options: argparse.Namespace) -> dict[str, str | None]:
    """Return whose peaks are meant: a sweep's of the manifest, else those of a factor, component or task."""
    path = context.manifest_path(options.manifest)
    named = options.name and (options.manifest or path.exists())  # without a manifest a name still is a factor's
    loaded = context.load_named(read(path), str(path), options.target, options.overlay) if named else None
    sweeps = loaded.manifest.sweeps if loaded is not None else {}
    if options.name not in sweeps:
        return {"name": options.name}
    sweep = sweeps[options.name]
    return {"name": sweep.factor, "run": sweep.run or "", "settings": listing(sweep.settings)}
