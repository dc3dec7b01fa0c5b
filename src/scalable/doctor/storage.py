"""Where a run writes: its folder, the store, the cache, the temporary folder. Nothing is left there by looking."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from scalable.doctor.checks import Case, fail, ok, warn
from scalable.findings import Finding, Severity
from scalable.observe.folders import runs_dir
from scalable.quantities import Memory
from scalable.store import StoreError, open_store
from scalable.store.urls import SQLITE, file_of, shown_url
from scalable.sweeps.loading import artefacts_url, store_url

LITTLE = Memory.of_gib(1)  # logs and journal of a long run, and what workers spill
NOTHING = Memory(50 * 2**20)  # below that a run does not get far
ANSWER_WITHIN_S = 2.0


def folders(case: Case) -> Iterator[Finding]:
    yield folder(
        "runs-folder", runs_dir(manifest=case.folder), "write SCALABLE_RUNS_DIR=FOLDER with one you may write to"
    )
    if any(task.cache for task in case.manifest.tasks.values()):
        own = case.manifest.folder / Path(case.manifest.project.local_cache or ".scalable/cache").expanduser()
        named = Path(os.environ.get("SCALABLE_CACHE_DIR") or own)
        yield folder("cache-folder", named.expanduser(), "write SCALABLE_CACHE_DIR=FOLDER")
    if case.manifest.sweeps and "://" not in case.manifest.artefacts:
        yield folder("artefacts", Path(artefacts_url(case.manifest)), "write artefacts: FOLDER")
    yield folder("temporary-folder", Path(tempfile.gettempdir()), "write TMPDIR=FOLDER with one that has room")


def folder(name: str, path: Path, remedy: str) -> Finding:
    """Return whether it can be made and written, and how much room there is."""
    there = nearest(path)
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"x")
    except OSError as error:
        return fail(name, f"{path} cannot be written: {error.strerror or error}", remedy)
    free = Memory(shutil.disk_usage(there).free)
    text = f"{path}: {free} free"
    if free < NOTHING:
        return fail(name, text, remedy)
    return warn(name, f"{text}, which may not last", remedy) if free < LITTLE else ok(name, text)


def nearest(path: Path) -> Path:
    """Return the folder itself, or the one in which it would be made."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def store(case: Case) -> Iterator[Finding]:
    if not case.manifest.sweeps:
        return
    url = store_url(case.manifest)
    shown = shown_url(url)
    try:
        if url.partition(":")[0].lower() in SQLITE:
            yield of_file(file_of(url), shown)
        else:
            open_store(url, patience_s=ANSWER_WITHIN_S, folder=case.manifest.folder).close()
            yield ok("store", f"{shown} answers")
    except StoreError as error:
        yield fail("store", str(error), "write store: sqlite:///.scalable/results.db, or one you can reach")


def of_file(path: Path, shown: str) -> Finding:
    """Looks without making tables, and without touching what a running sweep may be writing."""
    remedy = "name a file you may write to"
    if not path.exists():
        check = folder("store", path.parent, remedy)
        return check if check.severity is Severity.ERROR else ok("store", f"{shown} will be made")
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK):
        return fail("store", f"{path} may not be written", remedy)
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=ANSWER_WITHIN_S)) as connection:
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.Error as error:
        return fail("store", f"{path} cannot be read: {error}", remedy)
    return ok("store", f"{shown}, {tables} tables and indexes")
