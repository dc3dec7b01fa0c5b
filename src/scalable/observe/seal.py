"""Which runs are this user's own: made by this user where they lie now, not received from somebody else.

What a run's records name (a manifest, the code beside it, pickled work) is used without a question only if they carry
a seal, which is made with a key in the user's home that nobody else can read.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path


def sealed(*texts: str) -> str:
    """Return the seal of some texts; empty where no key can be kept."""
    key = own_key()
    return hmac.new(key, "\0".join(texts).encode(errors="surrogateescape"), hashlib.sha256).hexdigest() if key else ""


def is_seal(seal: object, *texts: str) -> bool:
    right = sealed(*texts)
    return bool(right) and isinstance(seal, str) and hmac.compare_digest(seal.encode(), right.encode())


def own_key() -> bytes:
    """Return this user's key, made when it is first needed; empty where it cannot be kept or may be another's."""
    try:
        path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "scalable" / "key"
        if not path.exists():
            make_key(path)
        about = path.stat()
        return path.read_bytes() if about.st_uid == os.geteuid() and not about.st_mode & 0o077 else b""
    except (OSError, RuntimeError):  # no home, or one that cannot be written
        return b""


def make_key(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{secrets.token_hex(8)}.part")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(32))
    with suppress(FileExistsError):  # another process was faster; its key counts
        os.link(beside, path)
    beside.unlink()
