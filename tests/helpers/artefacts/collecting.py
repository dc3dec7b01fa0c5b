"""What a collection removes and what it leaves alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from scalable.store.artefacts import Artefacts, open_artefacts
from tests.helpers.artefacts.children import STAGE

DAY_S = 86_400.0


def aged(folder: Path, **days: int) -> Artefacts:
    """Artefacts of equal size, named after nothing, each last used so many days ago."""
    artefacts = open_artefacts(folder)
    for key, age in days.items():
        artefacts.save(STAGE, key, np.ones(1000))
        then = time.time() - age * DAY_S
        os.utime(folder / STAGE / f"{key}.artefact", (then, then))
    return artefacts


def keys(artefacts: Artefacts) -> list[str]:
    return sorted(one.key for one in artefacts.list())
