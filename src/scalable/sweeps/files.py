"""Files whose content decides results: those a sweep names in ``inputs``, those that arguments marked as files lead to,
and those that a job opened although nobody named them.

The first two are part of the keys of stages, so a changed file means recomputation. The third are seen by an audit hook
in the runner, which costs a fraction of a microsecond for each event of the interpreter and looks at ``open`` alone;
they are a finding, since a change in them would go unnoticed. Files that compiled code opens by itself are not seen.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from glob import glob
from hashlib import file_digest
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from scalable.store.caching.content import RETURN, ContentKind, contents, kinds_of
from scalable.store.caching.keys import key_of
from scalable.sweeps.project import located
from scalable.sweeps.stages import Stage, StageError

SHORT = 8  # hexadecimal digits of a file's digest beside its name
LONGEST = 900  # characters of all names and digests that a row keeps; the key covers the others, too
MOST_OPENED = 20  # files that a job reports as opened and not named
CODE = (".py", ".pyc", ".so")  # covered by the fingerprints of code and versions
PRIVATE = (".scalable", ".git", ".venv", "__pycache__")  # folders in which no data lie


@dataclass
class InputFiles:
    """The content of the files that decide a sweep's results."""

    named: Mapping[str, str] = field(default_factory=dict)
    """Digests of the files named in ``inputs``, by path as seen from the project's folder."""
    marked: dict[str, str] = field(default_factory=dict)
    """The same of files that marked arguments lead to, as they are met."""

    @classmethod
    def of(cls, patterns: Iterable[str]) -> InputFiles:
        """Return the files that match; raise if a pattern matches none, which is most likely a slip of the pen."""
        named: dict[str, str] = {}
        for pattern in patterns:
            matches = list(matching(pattern))
            if not matches:
                raise StageError(f"inputs: no file matches {pattern!r}, seen from {located('.').resolve()}")
            named |= {name: digest(path) for name, path in matches}
        return cls(dict(sorted(named.items())))

    def key(self, stage: Stage[..., Any], values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return what a stage's key has to cover of files; nothing where none is named or marked."""
        marks = marks_of(stage)
        read = {name: contents(kind, placed(values[name])) for name, kind in marks.items() if name in values}
        for name in read:
            self.marked |= {str(path): key_of(read[name])[:SHORT] for path in paths_in(values[name])}
        return (dict(self.named), read) if self.named or read else ()

    def fingerprint(self, data: str) -> str:
        """Return a fingerprint of all data with the digest of each file, as many as fit: which of them changed."""
        text = data
        for name, content in {**self.marked, **self.named}.items():
            entry = f" {quote(name)}:{content[:SHORT]}"
            if len(text) + len(entry) > LONGEST:
                break
            text += entry
        return text


def changed_files(before: str, after: str) -> list[str]:
    """Return the files that differ between two fingerprints, by name."""
    was, now = (dict(entry.rsplit(":", 1) for entry in text.split()[1:] if ":" in entry) for text in (before, after))
    return sorted(unquote(name) for name in {*was, *now} if was.get(name) != now.get(name))


def matching(pattern: str) -> Iterator[tuple[str, Path]]:
    """Yield files by the name that a key covers and by where they are; all files below a folder that matches."""
    base = located(".")
    for name in sorted(glob(os.path.expanduser(pattern), root_dir=base, recursive=True)):  # noqa: PTH111, PTH207
        path = base / name
        if path.is_file():
            yield name, path
        elif path.is_dir():
            below = (file for file in sorted(path.rglob("*")) if file.is_file())
            yield from ((str(Path(name) / file.relative_to(path)), file) for file in below)


def digest(path: Path) -> str:
    """Return the digest of a file's content; files that are not touched are read once by each process."""
    facts = path.stat()
    return digest_of(str(path.resolve()), facts.st_mtime_ns, facts.st_size, facts.st_ino)


@lru_cache(maxsize=100_000)
def digest_of(path: str, _changed: int, _size: int, _inode: int) -> str:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return file_digest(file, "sha256").hexdigest()


@cache
def marks_of(stage: Stage[..., Any]) -> dict[str, ContentKind]:
    """Return which values a stage gets are paths to files or folders whose content counts."""
    kinds = kinds_of(stage.function, inspect.signature(stage.function), {})  # type: ignore[arg-type]
    return {name: kind for name, kind in kinds.items() if name != RETURN and name in stage.reads}


def placed(value: Any) -> Any:
    """Return a path, or a list of them, as seen from here."""
    if isinstance(value, list | tuple):
        return type(value)(map(placed, value))
    return located(os.fspath(value)) if isinstance(value, str | os.PathLike) else value


def paths_in(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


class Watch:
    """What a job opens below the project's folder, seen by an audit hook of this process."""

    def __init__(self) -> None:
        self.folder = ""
        """Below which files are noted; empty while nobody asks."""
        self.opened: dict[str, None] = {}
        self.installed = False

    @contextmanager
    def over(self, folder: Path) -> Iterator[dict[str, None]]:
        """Note what is opened for reading below a folder, meanwhile."""
        if not self.installed:  # a hook cannot be removed, so it is there only where somebody asked
            sys.addaudithook(self.hook)
            self.installed = True
        self.opened, self.folder = {}, f"{folder}{os.sep}"
        try:
            yield self.opened
        finally:
            self.folder = ""

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self.folder or len(self.opened) >= MOST_OPENED:
            return
        path, _, flags = arguments
        if isinstance(path, bytes | str) and isinstance(flags, int) and not flags & (os.O_WRONLY | os.O_CREAT):
            name = os.path.abspath(os.fsdecode(path))  # noqa: PTH100, called for every file that is opened
            if name.startswith(self.folder) and not name.endswith(CODE):
                self.opened[name] = None


WATCH = Watch()


def unnamed(opened: Iterable[str], folder: Path, known: Iterable[str]) -> tuple[str, ...]:
    """Return those of the opened files, as seen from the project, that neither a sweep nor a mark names."""
    covered = {os.path.realpath(folder / name) for name in known}
    names = []
    for path in opened:
        name = os.path.relpath(path, folder)
        if os.path.realpath(path) not in covered and not set(Path(name).parts) & set(PRIVATE):
            names.append(name)
    return tuple(sorted(names))
