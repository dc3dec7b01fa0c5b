"""Files that may not be read, also by root, as whom tests may run."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def forbid(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """Refuse to list and to open these paths."""
    refused = {path.absolute() for path in paths}

    def unless_refused(real: Callable[..., Any]) -> Callable[..., Any]:
        def asked(path: Any = ".", *arguments: Any, **named: Any) -> Any:
            if isinstance(path, str | os.PathLike) and Path(os.fspath(path)).absolute() in refused:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return real(path, *arguments, **named)

        return asked

    for name in ("open", "scandir"):
        monkeypatch.setattr(os, name, unless_refused(getattr(os, name)))
