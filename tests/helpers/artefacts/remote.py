"""The same in an object store: copies on this machine, claims and registrations that are renewed, no kernel's help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import fsspec  # type: ignore[import-untyped]
import pytest

from scalable.store.artefacts.remote import RemoteArtefacts


@pytest.fixture
def url() -> Iterator[str]:
    root = f"memory://{uuid4().hex}"
    yield f"{root}/artefacts"
    fsspec.filesystem("memory").rm(root, recursive=True) if fsspec.filesystem("memory").exists(root) else None


def machine(url: str, folder: Path, name: str) -> RemoteArtefacts:
    """The artefacts as one machine sees them: with copies of its own."""
    return RemoteArtefacts(url, folder / name)


def objects(url: str) -> list[str]:
    system = fsspec.filesystem("memory")
    root = url.removeprefix("memory:/")
    return sorted(name.removeprefix(root).lstrip("/") for name in system.find(root))
