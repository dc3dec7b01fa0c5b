"""A call for a task of the manifest: a function found by name, its cache, and the check of its outputs."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable.errors import ScalableError
from scalable.worker.runner.scratch import scratch_at

if TYPE_CHECKING:
    from scalable.store.caching.cache import Cache


class OutputError(ScalableError):
    """A task finished without the files it declares."""


@dataclass(frozen=True, slots=True)
class Output:
    """A file or folder that a task makes."""

    name: str
    kind: str
    """``file`` or ``dir``."""
    path: str = ""
    """Where it must be, from the project's folder; empty if the function returns its path."""


@dataclass(frozen=True, slots=True)
class FileMark:
    """A mark that tells a file or folder from another at the same place."""

    kind: str
    digest: str
    size: int = -1
    """Of a file, with the time of its last change: while both are the same, its content is not read again."""
    changed: int = -1

    @classmethod
    def of(cls, kind: str, path: str) -> FileMark:
        """Return the mark of what is at a path; raises ``ContentError``, an ``OSError``, if it is not there."""
        from scalable.store.caching.content import digest_of_file, digest_of_folder

        if kind == "dir":
            return cls(kind, digest_of_folder(path).hex())
        before = Path(path).stat()
        return cls(kind, digest_of_file(path).hex(), before.st_size, before.st_mtime_ns)

    def holds(self, path: str) -> bool:
        """Tell whether the same content is there."""
        try:
            if self.kind == "file":
                now = Path(path).stat()
                if (now.st_size, now.st_mtime_ns) == (self.size, self.changed):
                    return True
            return FileMark.of(self.kind, path).digest == self.digest
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The outcome of a task's call."""

    value: Any
    files: Mapping[str, FileMark] = field(default_factory=dict)
    """By path."""
    recalled: bool = False
    """It was in the cache; nothing was computed."""


@dataclass(frozen=True, slots=True)
class Call:
    """A task's call: found by name on the worker, so that nothing but names travels."""

    path: str
    cache: bool
    outputs: tuple[Output, ...] = ()
    cache_dir: str | None = None
    """Where its results are kept, unless the worker's environment says where."""
    folder: str = ""
    """Where paths of outputs start; empty for the current folder."""
    reads: tuple[Any, ...] = ()
    """What tells the files that it is given from others at the same places."""
    scratch: str | None = None
    """Where ``scalable.scratch()`` leads, if it declares checkpoints."""

    def __scalable_prepare__(self) -> None:
        """Find the function before it is called: missing code is another error than one that it raises."""
        find(self.path)

    def __call__(self, **arguments: Any) -> TaskResult:
        function = find(self.path)
        places = {output.name: str(Path(self.folder, output.path)) for output in self.outputs if output.path}
        taken = passed(function, places)
        if self.cache:
            kept = task_cache(function, self, places)
            value = kept.call((), {**arguments, **taken}, False)
            result = value if isinstance(value, TaskResult) else TaskResult(value)
            return TaskResult(result.value, result.files, recalled=not kept.misses)
        return self.computed(function, {**arguments, **taken}, places)

    def computed(self, function: Callable[..., Any], arguments: dict[str, Any], places: dict[str, str]) -> TaskResult:
        """Call the function, and return its result with the files it made."""
        for place in places.values():
            Path(place).parent.mkdir(parents=True, exist_ok=True)
        with scratch_at(Path(self.scratch)) if self.scratch else nullcontext():
            value = function(**arguments)
            if value is None and places:
                value = next(iter(places.values())) if len(self.outputs) == 1 else dict(places)
            return TaskResult(value, self.made(value, places))

    def made(self, value: Any, places: Mapping[str, str]) -> dict[str, FileMark]:
        """Return the marks of all declared outputs; raises ``OutputError`` for one that is not there."""
        returned = value if isinstance(value, Mapping) else {output.name: value for output in self.outputs}
        if not isinstance(value, Mapping) and len(self.outputs) > 1:
            returned = {}
        marks = {}
        for output in self.outputs:
            place = places.get(output.name, returned.get(output.name))
            if not isinstance(place, str | Path):
                kind = type(value).__name__
                raise OutputError(f"{self.path} must return the path of its output {output.name!r}; it returned {kind}")
            there = Path(place).is_file() if output.kind == "file" else Path(place).is_dir()
            if not there:
                noun = "file" if output.kind == "file" else "folder"
                raise OutputError(f"{self.path}: its output {output.name!r} is no {noun}: {place}")
            marks[str(place)] = FileMark.of(output.kind, str(place))
        return marks


def find(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    function = getattr(import_module(module), name, None)
    if not callable(function):
        raise ImportError(f"the module {module} has no function {name}")
    callee: Callable[..., Any] = function
    return callee


def passed(function: Callable[..., Any], places: Mapping[str, str]) -> dict[str, str]:
    """Return the paths of outputs that a function takes as arguments."""
    if not places:
        return {}
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C
        return {}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(places)
    return {name: place for name, place in places.items() if name in parameters}


def task_cache(function: Callable[..., Any], call: Call, places: dict[str, str]) -> Cache:
    """Return the cache of a task's function: as ``cacheable`` keeps results, and with the files they lead to."""
    from scalable.store.caching.cache import MISSING, VARIABLE, Cache
    from scalable.store.caching.decorator import refuse_what_cannot_be_cached
    from scalable.store.caching.keys import key_of

    class TaskCache(Cache):
        def compute(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            result = call.computed(self.function, kwargs, places)
            return result if call.outputs else result.value

        def stored_value(self, entry: Any) -> Any:
            """Return a result whose files are there, as they were made."""
            value = super().stored_value(entry)
            if not call.outputs or value is MISSING:
                return value
            good = isinstance(value, TaskResult) and all(mark.holds(path) for path, mark in value.files.items())
            return value if good else MISSING

        def key(self, arguments: inspect.BoundArguments) -> str:
            """Count where outputs are from the project's folder on: a project that was moved is the same."""
            given = arguments.arguments
            for name, parameter in self.signature.parameters.items():
                if name in places:
                    del given[name]
                elif parameter.kind is parameter.VAR_KEYWORD:
                    given[name] = {key: value for key, value in given[name].items() if key not in places}
            key = super().key(arguments)
            paths = tuple(output.path for output in call.outputs if output.path)
            return key_of((key, paths, call.reads)) if paths or call.reads else key

    refuse_what_cannot_be_cached(function)
    assert inspect.isfunction(function)
    return TaskCache(function, {}, None if os.environ.get(VARIABLE) else call.cache_dir)
