"""What may go wrong where artefacts are kept, said with the place and what to do about it."""

from __future__ import annotations

import errno

from scalable.errors import ScalableError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
ELSEWHERE = "name another place with  artefacts:  in the manifest"


class ArtefactError(ScalableError):
    """A result that could not be kept or fetched."""


def trouble(doing: str, place: str, error: BaseException) -> ArtefactError:
    """The error of a disk or an object store with its remedy."""
    number = error.errno if isinstance(error, OSError) else None
    if number in FULL:
        remedy = f"free some space (scalable cache gc --older-than 7d), or {ELSEWHERE}"
    elif number in FORBIDDEN or isinstance(error, PermissionError):
        remedy = f"let this user write there, or {ELSEWHERE}"
    elif number in (errno.ENOTDIR, errno.EEXIST):
        remedy = f"a file is where a folder must be: move it away, or {ELSEWHERE}"
    elif isinstance(error, FileNotFoundError):
        remedy = f"make the bucket or folder, or {ELSEWHERE}"
    else:
        remedy = f"check that the place can be reached, or {ELSEWHERE}"
    said = (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or type(error).__name__
    return ArtefactError(f"{place}: {doing}: {said}; {remedy}")
