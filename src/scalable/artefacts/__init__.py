"""Artefacts: results of stages, kept under the key of all that decided them, in a folder or an object store."""

from scalable.artefacts.errors import ArtefactError
from scalable.artefacts.interface import Artefact, Artefacts, Collected
from scalable.artefacts.opening import DEFAULT, open_artefacts
from scalable.caching.entries import MISSING

__all__ = ["DEFAULT", "MISSING", "Artefact", "ArtefactError", "Artefacts", "Collected", "open_artefacts"]
