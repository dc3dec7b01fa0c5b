"""Artefacts in an object store, through fsspec: objects ``STAGE/KEY.artefact``, each put at once and so never torn.

What was read or written here is also kept as a copy in a folder of this machine, so a second read is a local one; a
copy is verified like any artefact, and half-done work stays on the machine. Claims and registrations are small objects
that their holders renew (``scalable.store.leases``), since no kernel watches over object stores.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack
from uuid import uuid4

from scalable.store.artefacts.collecting import Leftover, collect
from scalable.store.artefacts.interface import Artefact, ArtefactError, Collected, Conditions, check_names, trouble
from scalable.store.artefacts.local import DAMAGED, ENDING, LocalArtefacts
from scalable.store.caching.cache import MISSING
from scalable.store.leases import held
from scalable.store.leases.objects import ObjectLeases

COPIES = ".scalable/copies"
MOST_COPIED = 20 << 30  # bytes of copies that are kept on a machine; the longest unused go when work begins
AT_ONCE = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory"}  # where an object appears whole or not at all
INSTALL = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs"}


class RemoteArtefacts:
    """The artefacts at an fsspec URL, with copies in a folder of this machine."""

    def __init__(self, url: str, copies: str | os.PathLike[str] = COPIES) -> None:
        self.given = url.rstrip("/")
        self.url = re.sub(r"(://[^/:@]*):[^/]*@", r"\1@", self.given)
        """As it is shown: without a password."""
        self.scheme = url.partition("://")[0]
        self.copies = LocalArtefacts(Path(copies) / sha256(self.given.encode()).hexdigest()[:16])
        self.opened: tuple[int, Any, str, ObjectLeases] | None = None

    def __reduce__(self) -> tuple[type[RemoteArtefacts], tuple[str, str]]:
        return RemoteArtefacts, (self.given, str(self.copies.folder.parent))

    def place(self) -> tuple[Any, str]:
        """Return the file system and the path in it; a process that was forked needs connections of its own."""
        if self.opened is None or self.opened[0] != os.getpid():
            try:
                core: Any = import_module("fsspec.core")
                system, root = core.url_to_fs(self.given, use_listings_cache=False)
            except (ImportError, ValueError) as error:
                name = INSTALL.get(self.scheme)
                remedy = f"run  pip install {name}" if name else "write a folder, or s3://…, gs://… or memory://…"
                raise ArtefactError(f"{self.url} cannot be opened: {error}; {remedy}") from error
            root = root.rstrip("/")
            self.opened = os.getpid(), system, root, ObjectLeases(system, root)
        return self.opened[1:3]

    def leases(self) -> ObjectLeases:
        self.place()
        assert self.opened is not None
        return self.opened[3]

    def name(self, stage: str, key: str, ending: str = ENDING) -> str:
        check_names(stage, key)
        return f"{self.place()[1]}/{stage}/{key}{ending}"

    def load(self, stage: str, key: str) -> Any:
        value = self.copies.load(stage, key)
        if value is not MISSING:
            return value
        try:
            fetched = self.fetch(stage, key)
        except OSError as error:
            raise trouble(f"{stage}/{key} could not be copied to this machine", self.copies.url, error) from error
        if not fetched:
            return MISSING
        value, damaged = self.copies.look(stage, key)
        if damaged:
            self.set_aside(stage, key)
        return value

    def fetch(self, stage: str, key: str) -> bool:
        """Copy an object to this machine, unless there is none."""
        system, _ = self.place()
        path = self.copies.path(stage, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{uuid4().hex}.part")
        try:
            with self.asked(f"{stage}/{key} could not be fetched"):
                try:
                    system.get_file(self.name(stage, key), str(beside))
                except FileNotFoundError:
                    return False
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        return True

    def set_aside(self, stage: str, key: str) -> None:
        system, _ = self.place()
        with self.asked(f"{stage}/{key} is damaged and could not be set aside"), suppress(FileNotFoundError):
            system.mv(self.name(stage, key), self.name(stage, key, DAMAGED))

    def save(self, stage: str, key: str, value: Any) -> int:
        size = self.copies.save(stage, key, value)
        system, _ = self.place()
        name, path = self.name(stage, key), str(self.copies.path(stage, key))
        with self.asked(f"the result of stage {stage} could not be kept"):
            if self.scheme in AT_ONCE:
                system.put_file(path, name)
            else:
                beside = f"{name}.{uuid4().hex}.part"
                system.makedirs(os.path.dirname(name), exist_ok=True)  # noqa: PTH120, a path of that system
                system.put_file(path, beside)
                system.mv(beside, name)
        return size

    @contextmanager
    def claimed(self, stage: str, key: str) -> Iterator[None]:
        """Claim first among those of this machine, which is cheap, then among all."""
        name = self.name(stage, key, ".claim")
        with self.copies.claimed(stage, key), ExitStack() as stack:
            with self.asked(f"{stage}/{key} could not be claimed"):
                stack.enter_context(held(self.leases().ask(name)))
            yield

    def scratch(self, stage: str, key: str) -> Path | None:
        return self.copies.scratch(stage, key)

    def list(self) -> Iterator[Artefact]:
        root = self.place()[1]
        for name, info in self.objects().items():
            stage, _, file = name.removeprefix(root).lstrip("/").partition("/")
            if file.endswith(ENDING) and not stage.startswith("."):
                written = self.leases().modified(name, info)
                yield Artefact(stage, file.removesuffix(ENDING), int(info["size"]), written, written)

    def objects(self) -> dict[str, dict[str, Any]]:
        """Return everything there is, with what the store tells of it."""
        system, root = self.place()
        with self.asked("artefacts could not be listed"):
            try:
                objects: dict[str, dict[str, Any]] = system.find(root, detail=True)
            except FileNotFoundError:
                return {}
        return objects

    @contextmanager
    def using(self, name: str, keys: Iterable[str]) -> Iterator[None]:
        self.copies.collect(keep_bytes=MOST_COPIED)
        needed = frozenset(keys)
        with self.copies.using(name, needed), ExitStack() as stack:
            with self.asked("what is in use could not be registered"):
                stack.enter_context(held(self.leases().register(name, needed)))
            yield

    def collect(self, **conditions: Unpack[Conditions]) -> Collected:
        with self.asked("artefacts could not be removed"):
            result = collect(self, now=self.leases().now, **conditions)
            damaged = [name for name in self.objects() if name.endswith(DAMAGED)]
            if damaged and not conditions.get("dry_run"):
                self.place()[0].rm(damaged)
        return result

    def collecting(self) -> AbstractContextManager[set[str]]:
        return self.leases().collecting()

    def remove(self, gone: Sequence[Artefact]) -> None:
        system, _ = self.place()
        self.copies.remove(gone)
        if names := [self.name(artefact.stage, artefact.key) for artefact in gone]:
            with suppress(FileNotFoundError):
                system.rm(names)

    def leftovers(self) -> Iterator[Leftover]:
        """Yield those of this machine; an object that was not put whole does not exist."""
        return self.copies.leftovers()

    @contextmanager
    def asked(self, doing: str) -> Iterator[None]:
        """Turn what libraries of object stores raise, which have no common base, into an error with its remedy."""
        try:
            yield
        except ArtefactError:
            raise
        except Exception as error:
            raise trouble(doing, self.url, error) from error
