"""Artefacts: results of stages, kept under the key of all that decided them, in a folder or an object store."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from scalable.store.artefacts.interface import Artefact, ArtefactError, Artefacts, Collected
from scalable.store.artefacts.local import LocalArtefacts
from scalable.store.caching.cache import MISSING

DEFAULT = ".scalable/artefacts"


def open_artefacts(url: str | os.PathLike[str] = DEFAULT) -> Artefacts:
    """Return the artefacts in a folder or at an fsspec URL such as ``s3://bucket/folder``; asks nothing yet."""
    text = os.fspath(url)
    if "://" not in text:
        return LocalArtefacts(text)
    if text.startswith("file://"):
        return LocalArtefacts(unquote(urlsplit(text).path))
    from scalable.store.artefacts.remote import RemoteArtefacts  # object stores are for few

    return RemoteArtefacts(text)


__all__ = ["DEFAULT", "MISSING", "Artefact", "ArtefactError", "Artefacts", "Collected", "open_artefacts"]
