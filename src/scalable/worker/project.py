"""The code and packages of the driver, compared with the worker's before it takes its first task.

The driver hands out a folder with ``project.json`` (what it has) and, where code is uploaded, ``project.zip``.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import distributions
from pathlib import Path

from scalable.errors import ScalableError
from scalable.wording import DISTRIBUTION

MOST_NAMED = 5  # files that differ
MOST_FILES = 5000  # a folder with more is no project but a home folder or a data store
MOST_BYTES = 50 * 2**20  # of an upload
LARGEST_FILE = 2**20  # larger files are data; they belong into a shared folder
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist", "venv"})
DECISIVE = ("cloudpickle", "dask", "distributed", "msgpack", "scalable", DISTRIBUTION)
"""Packages that must be the same on both sides, or tasks cannot be read there."""


class ProjectError(ScalableError):
    """The user's code cannot be handed out, or a worker does not have it."""


@dataclass(frozen=True, slots=True)
class ProjectCode:
    """The driver's code. ``code`` is a hash of every Python file; empty where that is not to be compared."""

    mode: str
    folder: str
    python: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_folder(cls, folder: Path, mode: str) -> ProjectCode:
        code = fingerprint(folder) if mode == "shared" else {}
        return cls(mode, str(folder), platform.python_version(), installed(), code)

    def hand_out(self, place: Path) -> None:
        """Write what workers need to compare, and the code itself if it is uploaded."""
        (place / "project.json").write_text(json.dumps(asdict(self)), encoding="utf-8")
        if self.mode == "upload":
            pack(Path(self.folder), place / "project.zip")

    @classmethod
    def handed_out(cls, place: Path) -> ProjectCode | None:
        file = place / "project.json"
        return cls(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None

    def prepare(self, place: Path, scratch: Path) -> list[str]:
        """Make the code importable on the worker and name what differs; raise if work would go wrong."""
        decisive, others = self.differences()
        if decisive:
            raise ProjectError(f"this worker differs from the driver: {'; '.join(decisive)}")
        if self.mode == "upload":
            unpacked = scratch / "project"
            with zipfile.ZipFile(place / "project.zip") as archive:
                archive.extractall(unpacked)
            sys.path.insert(0, str(unpacked))
        elif self.mode == "shared":
            folder = Path(self.folder)
            if not folder.is_dir():
                remedy = "write code: upload in the target, or mount it"
                raise ProjectError(f"the project's folder {folder} is not there on this worker; {remedy}")
            if self.code and (changed := compared(self.code, fingerprint(folder))):
                raise ProjectError(f"the code in {folder} is not the driver's: {'; '.join(changed)}")
            sys.path.insert(0, str(folder))
        return others

    def differences(self) -> tuple[list[str], list[str]]:
        """Return packages that differ: those that stop work, and those that may change results."""
        decisive, others = [], []
        version_here = platform.python_version()
        if version_here.split(".")[:2] != self.python.split(".")[:2]:
            decisive.append(f"Python {version_here} here, {self.python} there")
        there = installed()
        for name, version in self.packages.items():
            installed_version = there.get(name)
            if installed_version == version:
                continue
            text = f"{name} {installed_version or 'is missing'} here, {version} there"
            if name in DECISIVE:
                decisive.append(text)
            elif installed_version is not None:
                others.append(text)
        return decisive, others


def installed() -> dict[str, str]:
    versions: dict[str, str] = {}
    for distribution in distributions():
        name = distribution.metadata["Name"]
        if name:
            versions.setdefault(name.lower().replace("_", "-"), distribution.version)
    return versions


def files(folder: Path, pattern: str = "*") -> Iterator[Path]:
    """Yield the files of a project in a fixed order, without environments, caches and hidden folders."""
    try:
        entries = sorted(folder.iterdir())
    except PermissionError:  # what we may not read is not ours to hand out
        return
    for path in entries:
        if path.name.startswith(".") or path.name in SKIPPED:
            continue
        if path.is_dir() and not path.is_symlink() and not (path / "pyvenv.cfg").exists():
            yield from files(path, pattern)
        elif path.is_file() and path.match(pattern) and os.access(path, os.R_OK):
            yield path


def fingerprint(folder: Path) -> dict[str, str]:
    """Return a hash of every Python file; empty for a folder that is too large to be a project."""
    hashes: dict[str, str] = {}
    for count, path in enumerate(files(folder)):
        if count >= MOST_FILES:
            return {}
        if path.suffix == ".py":
            hashes[str(path.relative_to(folder))] = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    return hashes


def compared(expected: dict[str, str], actual: dict[str, str]) -> list[str]:
    lines = [f"{name} is missing" for name in expected if name not in actual]
    lines += [f"{name} differs" for name in expected if name in actual and actual[name] != expected[name]]
    more = len(lines) - MOST_NAMED
    return lines[:MOST_NAMED] + ([f"and {more} more"] if more > 0 else [])


def pack(folder: Path, archive: Path) -> None:
    total = 0
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as out:
        for count, path in enumerate(files(folder)):
            size = path.stat().st_size
            total += size if size <= LARGEST_FILE else 0
            if count >= MOST_FILES or total > MOST_BYTES:
                limit = f"{MOST_FILES:,} files and {MOST_BYTES // 2**20} MiB"
                raise ProjectError(f"{folder} is too large to upload (over {limit}); use code: shared or code: image")
            if size <= LARGEST_FILE:
                out.write(path, path.relative_to(folder))
