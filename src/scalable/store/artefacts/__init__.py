"""Artefacts: results of stages, kept under the key of all that decided them, in a folder or an object store."""

from scalable.store.artefacts.errors import ArtefactError
from scalable.store.artefacts.interface import Artefact, Artefacts, Collected
from scalable.store.artefacts.opening import DEFAULT, open_artefacts
from scalable.store.caching.entries import MISSING

__all__ = ["DEFAULT", "MISSING", "Artefact", "ArtefactError", "Artefacts", "Collected", "open_artefacts"]
