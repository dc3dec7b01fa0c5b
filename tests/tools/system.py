"""The system packages the tests use: which are missing, and their installation where that is possible.

``python -m tests.tools.system`` installs what is missing if it runs as root on a machine with apt-get, and otherwise
says what to run. It never asks a question and starts no service. Tests whose programs stay missing are skipped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.tools.errors import ToolError, ToolMissingError

SLURM_PROGRAMS = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
}
POSTGRES_PROGRAMS = {"postgres": "postgresql"}
PROMETHEUS_PROGRAMS = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
}
BROWSER_PROGRAMS = {"chromium": "chromium"}
SHELL_PROGRAMS = {"zsh": "zsh"}
PROGRAMS = SLURM_PROGRAMS | POSTGRES_PROGRAMS | PROMETHEUS_PROGRAMS | BROWSER_PROGRAMS | SHELL_PROGRAMS
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"  # where daemons are, and an ordinary user's PATH does not look
POSTGRES = Path("/usr/lib/postgresql")  # where Debian keeps the programs of each version
INSTALL_S = 900  # a slow mirror is waited for, one that hangs is not
POLICY = Path("/usr/sbin/policy-rc.d")
NO_SERVICE = "#!/bin/sh\nexit 101\n"  # what package scripts understand as: do not start it


def main() -> int:
    """Install what is missing, if this user may; that some of it cannot be had is for the tests to judge."""
    packages = missing(PROGRAMS)
    if not packages:
        return 0
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"system packages for some tests are missing; without them these tests are skipped: {' '.join(packages)}")
        print(f"  to have them:  {command_for(packages)}")
        return 0
    started = time.monotonic()
    print(f"installing system packages for the tests (once): {' '.join(packages)}", flush=True)
    try:
        install(packages)
    except (ToolError, OSError) as error:
        print(f"  this failed, tests that need them will be skipped: {error}")
        print(f"  to try again:  {command_for(packages)}")
        return 0
    print(f"  installed in {time.monotonic() - started:.0f} s")
    return 0


def search_path() -> str:
    versions = [str(folder) for folder in POSTGRES.glob("*/bin")]
    return os.pathsep.join([os.environ.get("PATH", os.defpath), SBIN, *versions])


def missing(programs: dict[str, str]) -> list[str]:
    """The packages of those programs that are not installed."""
    gone = [package for program, package in programs.items() if shutil.which(program, path=search_path()) is None]
    return list(dict.fromkeys(gone))


def require(programs: dict[str, str]) -> None:
    if packages := missing(programs):
        raise ToolMissingError(f"not installed: {', '.join(packages)}; run  {command_for(packages)}")


def command_for(packages: list[str]) -> str:
    return f"sudo apt-get install --no-install-recommends {' '.join(packages)}"


def install(packages: list[str]) -> None:
    """Install packages; the package lists are renewed only if it does not work with those there are."""
    arguments = ["install", "--yes", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold", *packages]
    with services_stay_down():
        try:
            apt_get(arguments)
        except ToolError:
            # One unreachable source among several is no reason to give up: the installation itself decides.
            with contextlib.suppress(ToolError):
                apt_get(["update"])
            apt_get(arguments)


def apt_get(arguments: list[str]) -> None:
    quiet = ["-qq", "-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=3"]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1", "PATH": search_path()}
    command = ["apt-get", *quiet, *arguments]
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_S
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{' '.join(command)} took longer than {INSTALL_S} s") from error
    if done.returncode:
        raise ToolError(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")


@contextlib.contextmanager
def services_stay_down() -> Iterator[None]:
    """While packages are installed, none of their services is started; the tests start their own."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text(NO_SERVICE, encoding="ascii")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


if __name__ == "__main__":
    raise SystemExit(main())
