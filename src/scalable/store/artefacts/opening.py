"""From a folder or URL to the artefacts there."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from scalable.store.artefacts.interface import Artefacts
from scalable.store.artefacts.local import LocalArtefacts

DEFAULT = ".scalable/artefacts"


def open_artefacts(url: str | os.PathLike[str] = DEFAULT) -> Artefacts:
    """The artefacts in a folder, or at an fsspec URL such as ``s3://bucket/folder``; nothing is made or asked yet."""
    text = os.fspath(url)
    if "://" not in text:
        return LocalArtefacts(text)
    if text.startswith("file://"):
        return LocalArtefacts(unquote(urlsplit(text).path))
    from scalable.store.artefacts.remote import RemoteArtefacts  # object stores are for few

    return RemoteArtefacts(text)
