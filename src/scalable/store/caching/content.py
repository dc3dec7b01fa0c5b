"""Arguments and results that are paths and count by the content of what they lead to, and how they are marked."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from enum import Enum
from hashlib import file_digest, sha256
from inspect import Signature
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, TypeAlias, get_args

from scalable.errors import ScalableError
from scalable.store.caching.keys import CachingError


class ContentError(ScalableError, OSError):
    """A file or folder whose content should count but cannot be read."""


class ContentKind(Enum):
    """The part of an argument or a result that counts."""

    VALUE = "value"
    """Counts by type and value, as everything does that is not marked; overrules an annotation."""
    FILE = "file"
    """A path to a file whose bytes count; its name does not."""
    FOLDER = "folder"
    """A path to a folder; the names below it and the bytes of its files count, its own name does not."""


ValueType: TypeAlias = Annotated[Any, ContentKind.VALUE]
FileType: TypeAlias = Annotated[str | os.PathLike[str], ContentKind.FILE]
DirType: TypeAlias = Annotated[str | os.PathLike[str], ContentKind.FOLDER]
MARKS = {"ValueType": ValueType, "FileType": FileType, "DirType": DirType}

RETURN = "return"  # where annotations keep the type of the result


def kinds_of(function: FunctionType, signature: Signature, given: Mapping[str, ContentKind]) -> dict[str, ContentKind]:
    """Return the kind of every marked argument, and of the result, from the decorator's options and the annotations."""
    kind_by_name = dict(given)
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    for name, annotation in {**annotations, RETURN: signature.return_annotation}.items():
        if name not in kind_by_name:
            kinds = kinds_in(evaluated(function, name, annotation))
            if len(kinds) > 1:
                raise CachingError(f"{function.__qualname__}: {name!r} has two marks; leave one of them")
            kind_by_name.update((name, kind) for kind in kinds)
    return {name: kind for name, kind in kind_by_name.items() if kind is not ContentKind.VALUE}


def kinds_in(annotation: object) -> set[ContentKind]:
    """Find marks anywhere in an annotation: ``list[FileType]`` and ``FileType | None`` are marked as well."""
    kinds = {mark for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, ContentKind)}
    return kinds.union(*(kinds_in(part) for part in get_args(annotation) if not isinstance(part, ContentKind)))


def evaluated(function: FunctionType, name: str, annotation: object) -> object:
    """Evaluate an annotation written as text, as ``from __future__ import annotations`` makes them all."""
    if not isinstance(annotation, str):
        return annotation
    around = {}
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            around[variable] = cell.cell_contents
        except ValueError:
            continue
    try:
        return eval(annotation, function.__globals__, around)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        marks = [mark for mark in MARKS if mark in annotation]
        if not marks:
            return None
        raise CachingError(
            f"{function.__qualname__}: the annotation {annotation!r} of {name!r} cannot be read ({error}); "
            f"import what it names at run time, or write @cacheable({name if name != RETURN else 'return_type'}"
            f"={marks[0]})"
        ) from None


def contents(kind: ContentKind, value: Any) -> Any:
    """Return a path, or a collection of paths, with every path replaced by the digest of its content."""
    if value is None:
        return None
    if isinstance(value, str | bytes | os.PathLike):
        return (kind.value, digest_of_file(value) if kind is ContentKind.FILE else digest_of_folder(value))
    if isinstance(value, Mapping):
        return {name: contents(kind, path) for name, path in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        parts = [contents(kind, path) for path in value]
        return (type(value).__name__, *(sorted(parts, key=repr) if isinstance(value, set | frozenset) else parts))
    raise CachingError(
        f"a {type(value).__name__} is not a path to a {kind.value}; pass the path as text or pathlib.Path"
    )


def digest_of_file(path: str | bytes | os.PathLike[str]) -> bytes:
    path = Path(os.fsdecode(path))
    mode = mode_of(path, "file")
    if stat.S_ISDIR(mode):
        raise ContentError(f"{path} is a folder; mark the argument as DirType")
    if not stat.S_ISREG(mode):
        raise ContentError(f"{path} is neither a file nor a folder, so its content cannot count; pass a regular file")
    try:
        with path.open("rb", buffering=0) as file:
            return file_digest(file, "sha256").digest()
    except OSError as error:
        raise ContentError(f"{path} cannot be read: {error.strerror}") from None


def digest_of_folder(path: str | bytes | os.PathLike[str]) -> bytes:
    path = Path(os.fsdecode(path))
    if not stat.S_ISDIR(mode_of(path, "folder")):
        raise ContentError(f"{path} is a file; mark the argument as FileType")
    return digest_below(path, ())


def digest_below(folder: Path, above: tuple[Path, ...]) -> bytes:
    """Return a digest. Links are followed; one that leads back to a folder above it counts as a link there."""
    real = folder.resolve()
    if real in above:
        return b"<%d" % above[::-1].index(real)
    digest = sha256()
    try:
        names = sorted(os.listdir(os.fsencode(folder)))  # noqa: PTH208, names that are not text count as well
    except OSError as error:
        raise ContentError(f"{folder} cannot be read: {error.strerror}") from None
    for name in names:
        path = folder / os.fsdecode(name)
        if path.is_dir():
            tag, inner = b"d", digest_below(path, (*above, real))
        elif path.is_symlink() and not path.exists():
            tag, inner = b"l", os.fsencode(path.readlink())
        else:
            tag, inner = b"f", digest_of_file(path)
        digest.update(b"%s%d:%s%d:%s" % (tag, len(name), name, len(inner), inner))
    return digest.digest()


def mode_of(path: Path, noun: str) -> int:
    try:
        return path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ContentError(f"the {noun} {path} cannot be read: {reason}") from None
