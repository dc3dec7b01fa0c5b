"""Values kept in a folder: what comes back, what counts as missing, what is said when they cannot be kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may write everywhere; be nobody for a while."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)
