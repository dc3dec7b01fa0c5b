"""Where an Apptainer comes from: the machine's own if it has one, else Debian's newest build in a private folder.

Debian releases have no Apptainer, its development branch does, built for a newer C library. Its programs are unpacked
into a folder together with the libraries they need, and pointed at those; nothing is installed. The packages come
from the mirror apt already uses, with apt's signature checks, so it works as an ordinary user and needs no address.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.tools.errors import ToolError, ToolMissingError

SUITE = "sid"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PACKAGES = (
    *("apptainer", "libc6", "libseccomp2", "libsqlite3-0"),
    *("squashfs-tools", "liblz4-1", "liblzma5", "liblzo2-2", "libzstd1", "zlib1g"),
    *("patchelf", "libgcc-s1", "libstdc++6"),
)
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = f"{LIBRARIES}/ld-linux-x86-64.so.2"
PROGRAMS = (
    "usr/bin/apptainer",
    f"{LIBRARIES}/apptainer/bin/starter",
    "usr/bin/mksquashfs",
    "usr/bin/unsquashfs",
)
# The programs look for configuration and session folder relative to themselves, as if installed under their folder.
LINKS = {
    "usr/etc": "../etc",
    "usr/lib/etc": "../../etc",
    "usr/var/lib": "../../var/lib",
    "usr/lib/var/lib": "../../../var/lib",
}
# Root without CAP_SYS_RESOURCE, as in some containers and virtual machines, may not ask for every capability.
WRAPPER = """\
#!/bin/sh
# Apptainer with its own C library; made by the test tools.
if [ "$(id -u)" = 0 ] && [ $((0x$(awk '/^CapPrm/ {{print $2}}' /proc/self/status) >> 24 & 1)) = 0 ]; then
    export APPTAINER_DROP_CAPS="${{APPTAINER_DROP_CAPS:-CAP_SYS_RESOURCE}}"
fi
PATH="$PATH:{root}/usr/bin" exec "{root}/usr/bin/apptainer" "$@"
"""
DOWNLOAD_S = 300.0
STEP_S = 60.0


def get(folder: Path | None = None) -> Path:
    """A working ``apptainer``; downloaded on the first call (some seconds, 25 MB) unless the machine has one."""
    if installed := shutil.which("apptainer"):
        return Path(installed)
    home = (folder or cache_folder()).resolve()
    home.mkdir(parents=True, exist_ok=True)
    program = home / "bin" / "apptainer"
    with locked(home):
        if not works(program):
            build(home)
            if not works(program):
                raise ToolError(
                    f"{program} was made from Debian's packages but does not run; remove {home} to try again"
                )
    return program


def cache_folder() -> Path:
    """Kept between runs, in the user's cache; removing it costs only the time to make it again."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "scalable-test-tools" / "apptainer"


def works(program: Path) -> bool:
    if not program.exists():
        return False
    return subprocess.run([program, "--version"], capture_output=True, timeout=STEP_S).returncode == 0


def build(home: Path) -> None:
    """Download, unpack and relocate; the program appears last, so an interrupted build is done again."""
    program = home / "bin" / "apptainer"
    root = home / "root"
    program.unlink(missing_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=home) as temporary:
        for package in download(Path(temporary)):
            step(["dpkg-deb", "--extract", str(package), str(root)])
    patchelf = [str(root / LOADER), "--library-path", str(root / LIBRARIES), str(root / "usr/bin/patchelf")]
    relocate = ["--set-interpreter", str(root / LOADER), "--force-rpath", "--set-rpath", str(root / LIBRARIES)]
    for name in PROGRAMS:
        step([*patchelf, *relocate, str(root / name)])
    (root / "var/lib/apptainer/mnt/session").mkdir(parents=True, exist_ok=True)
    for name, target in LINKS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    program.parent.mkdir(exist_ok=True)
    fresh = program.with_suffix(".new")
    fresh.write_text(WRAPPER.format(root=root), encoding="utf-8")
    fresh.chmod(0o755)
    fresh.rename(program)


def download(folder: Path) -> list[Path]:
    """The packages' files, from the first mirror that has them."""
    for needed in ("apt-get", "dpkg-deb"):
        if shutil.which(needed) is None:
            raise ToolMissingError(
                f"there is no apptainer, and without {needed} none can be unpacked; install apptainer"
            )
    if (machine := os.uname().machine) != "x86_64":
        raise ToolMissingError(f"there is no apptainer, and none can be unpacked on {machine}; install apptainer")
    reasons = ["apt has no Debian mirror"]
    for number, mirror in enumerate(mirrors()):
        try:
            return download_from(mirror, folder / str(number))
        except ToolError as error:
            reasons.append(str(error))
    raise ToolMissingError(f"there is no apptainer, and it could not be downloaded ({reasons[-1]}); install apptainer")


def mirrors() -> list[str]:
    """Where this machine's apt takes Debian from; origins are unknown as long as it has no package lists."""
    listed = step(["apt-get", "indextargets", "--format", "$(LABEL) $(SITE)", "Created-By: Packages"])
    sites = (line.split(maxsplit=1) for line in listed.splitlines())
    return list(dict.fromkeys(site for label, site in sites if label in ("Debian", "$(LABEL)")))


def download_from(mirror: str, folder: Path) -> list[Path]:
    """Let an apt fetch the packages whose lists and cache are in ``folder``; the machine's are not touched."""
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True)
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    (folder / "sources.list").write_text(f"deb {signed}{mirror} {SUITE} main\n", encoding="utf-8")
    settings = {
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": folder,
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "APT::Sandbox::User": "",  # the folder is this user's alone
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    step(["apt-get", "-qq", *options, "update"], DOWNLOAD_S)
    step(["apt-get", "-qq", *options, "download", *PACKAGES], DOWNLOAD_S, folder)
    return sorted(folder.glob("*.deb"))


def step(command: list[str], timeout_s: float = STEP_S, folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{' '.join(command)} took longer than {timeout_s:.0f} s") from error
    if done.returncode:
        raise ToolError(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One builder at a time; the others find its work done."""
    with (folder / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
