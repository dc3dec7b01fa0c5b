"""Files that are replaced whole: written beside, then renamed, so that no reader ever sees a part."""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_hex


def write_beside(path: Path, text: str) -> None:
    """Replace a file's content. Whoever reads, or pulls the plug, meets the old content or the new one."""
    beside = path.with_name(f".{token_hex(8)}.part")
    try:
        with beside.open("x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
