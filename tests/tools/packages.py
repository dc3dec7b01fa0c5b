"""Programs of Python packages that are too large for the developers' tools: each in an environment of its own.

It is made on first use, in the user's cache, on top of the packages the tests run with, so only what these lack is
downloaded; or apart from them, where it cannot live with their versions. Removing it costs only the time to make it
again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tests.tools.errors import ToolError, ToolMissingError

INSTALL_S = 600.0  # a slow mirror is waited for, one that hangs is not
STEP_S = 120.0


def environment(name: str, requirements: list[str], *, apart: bool = False) -> Path:
    """The folder of the environment's programs; some minutes the first time, nothing later."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = cache_folder() / f"{name}-{version}"
    home.mkdir(parents=True, exist_ok=True)
    ready = home / "ready"
    wanted = "\n".join([sys.executable, *requirements])
    with locked(home):
        if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
            ready.unlink(missing_ok=True)
            make(home / "venv", requirements, apart)
            ready.write_text(wanted, encoding="utf-8")
    return home / "venv" / "bin"


def make(folder: Path, requirements: list[str], apart: bool) -> None:
    step([sys.executable, "-m", "venv", "--clear", str(folder)], STEP_S)
    if not apart:
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", "--no-compile", "--disable-pip-version-check"]
    try:
        step([*pip, *requirements], INSTALL_S)
    except ToolError as error:
        raise ToolMissingError(f"{', '.join(requirements)} cannot be installed: {error}") from error


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "scalable-test-tools" / "packages"


def step(command: list[str], timeout_s: float) -> None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{' '.join(command)} took longer than {timeout_s:.0f} s") from error
    if done.returncode:
        raise ToolError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One builder at a time; the others find its work done."""
    with (folder / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
