"""What a runner calls for a task of the manifest: a function found by name, its cache, and the check of its outputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from scalable.errors import ScalableError


class OutputError(ScalableError):
    """A task finished without the files it declares."""


@dataclass(frozen=True, slots=True)
class Call:
    """What the worker calls for a task: found by name there, so that nothing but names travels."""

    path: str
    cache: bool
    outputs: tuple[tuple[str, str], ...]
    cache_dir: str | None = None
    """Where its results are kept, unless the worker's environment says where."""

    def __scalable_prepare__(self) -> None:
        """Called before the call itself: code that is not there is another error than one it raises."""
        find(self.path)

    def __call__(self, **arguments: Any) -> Any:
        function = find(self.path)
        if self.cache:
            from scalable.store.caching import cacheable
            from scalable.store.caching.cache import VARIABLE

            function = cacheable(cache_dir=None if os.environ.get(VARIABLE) else self.cache_dir)(function)
        value = function(**arguments)
        check_outputs(self.path, dict(self.outputs), value)
        return value


def find(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    function = getattr(import_module(module), name, None)
    if not callable(function):
        raise ImportError(f"the module {module} has no function {name}")
    found: Callable[..., Any] = function
    return found


def check_outputs(path: str, outputs: Mapping[str, str], value: Any) -> None:
    """Declared outputs must be there: the task returns their paths, one alone or several by name."""
    if not outputs:
        return
    paths = value if isinstance(value, Mapping) else dict.fromkeys(outputs, value) if len(outputs) == 1 else {}
    for name, kind in outputs.items():
        place = paths.get(name)
        if not isinstance(place, str | Path):
            raise OutputError(f"{path} must return the path of its output {name!r}; it returned {type(value).__name__}")
        there = Path(place).is_file() if kind == "file" else Path(place).is_dir()
        if not there:
            raise OutputError(f"{path}: its output {name!r} is no {'file' if kind == 'file' else 'folder'}: {place}")
