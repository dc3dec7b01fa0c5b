"""An image without any download: shell, small tools and C library, copied from the machine with all they need.

The image has no Python. ``environment_folders`` are those to mount at the same place, so that the very interpreter
and packages that run the tests run in the container; the libraries that this interpreter needs are in the image.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.tools.apptainer.program import STEP_S, cache_folder, locked, step
from tests.tools.errors import ToolError

PROGRAMS = (
    *("sh", "bash", "env", "ls", "cat", "cp", "mv", "rm", "mkdir", "chmod", "ln", "touch", "head", "tail", "tee"),
    *("echo", "printf", "true", "false", "test", "sleep", "date", "id", "whoami", "hostname", "uname", "nproc", "pwd"),
    *("basename", "dirname", "realpath", "readlink", "mktemp", "stat", "sort", "wc", "cut", "tr", "seq", "timeout"),
    *("kill", "ps", "df", "du", "free", "grep", "sed", "awk", "find", "xargs", "which", "getent", "ldd", "nice"),
)
NEEDED = {"sh", "bash", "env", "cat", "ls", "sleep"}  # the rest is taken where the machine has it
LIBRARIES = (
    *("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "libresolv.so.2"),
    *("libnss_files.so.2", "libnss_dns.so.2", "libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1"),
)
FILES = (
    "/etc/os-release",
    "/etc/nsswitch.conf",
    "/etc/ssl/openssl.cnf",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/usr/lib/locale/C.utf8",
)
FOLDERS = ("proc", "sys", "dev", "tmp", "run", "etc", "root", "home", "mnt", "var/tmp")
MARKER = "scalable-test-image"
BUILD_S = 120.0
SHARED = re.compile(r"(?:=> |^\s*)(/\S+) \(0x")


def build_image(apptainer: Path, folder: Path | None = None) -> Path:
    """A SIF to run commands in; made once for each state of the machine's files, and kept in the cache."""
    home = (folder or cache_folder().parent / "images").resolve()
    home.mkdir(parents=True, exist_ok=True)
    files = contents()
    image = home / f"{MARKER}-{fingerprint(files)}.sif"
    with locked(home):
        if not image.exists():
            with tempfile.TemporaryDirectory(dir=home) as temporary:
                root = Path(temporary) / "root"
                assemble(root, files)
                fresh = Path(temporary) / "image.sif"
                step([str(apptainer), "build", "--force", str(fresh), str(root)], BUILD_S)
                fresh.rename(image)
    return image


def environment_folders() -> list[Path]:
    """The folders that make up the running Python environment, to be mounted in the container at the same place."""
    base = [Path(sys.base_prefix)]
    if base == [Path("/usr")]:  # the image has its own; only what is Python's comes from the machine
        base = [Path(sysconfig.get_path("stdlib")), *interpreter()]
    source = Path(__file__).parent.parent.parent.parent / "src"  # an editable installation points there
    return list(dict.fromkeys([*base, Path(sys.prefix), source]))


def interpreter() -> list[Path]:
    """The interpreter outside the virtual environment, under each name by which links lead to it."""
    found = [Path(sys.executable)]
    while found[-1].is_symlink():
        found.append(found[-1].parent / found[-1].readlink())
    return [path for path in found if Path(sys.prefix) not in path.parents]


def contents() -> list[Path]:
    """Every file of the image: programs, libraries, and all the libraries these need."""
    found = {name: shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin") for name in PROGRAMS}
    if absent := sorted(name for name in NEEDED if found[name] is None):
        raise ToolError(f"an image needs {', '.join(absent)}, which this machine does not have in /usr/bin or /bin")
    programs = [Path(path) for path in found.values() if path]
    extensions = Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("*.so")
    roots = [*programs, *named_libraries(), Path(sys.executable).resolve(), *extensions]
    extra = [path for name in FILES for path in tree(Path(name))]
    system = [path for path in libraries_of(roots) if {"usr", "lib", "lib64"}.intersection(path.parts[:2])]
    return sorted({*programs, *named_libraries(), *system, *extra})  # Python's own libraries are mounted with it


def named_libraries() -> list[Path]:
    """Libraries that packages load without being linked to them, if the machine has them."""
    known = step(["/sbin/ldconfig", "-p"])
    paths = (re.search(rf"^\s*{re.escape(name)} .*=> (\S+)$", known, re.MULTILINE) for name in LIBRARIES)
    return [Path(match[1]) for match in paths if match]


def libraries_of(files: Iterable[Path]) -> set[Path]:
    """All shared libraries the files are linked to, the loader included; scripts have none."""
    names = [str(path) for path in files]
    done = subprocess.run(["ldd", *names], capture_output=True, text=True, timeout=STEP_S)
    return {Path(match[1]) for line in done.stdout.splitlines() if (match := SHARED.search(line))}


def tree(path: Path) -> list[Path]:
    if path.is_dir():
        return [file for file in path.rglob("*") if file.is_file()]
    return [path] if path.is_file() else []


def fingerprint(files: Iterable[Path]) -> str:
    """Another one when any file changes, so that an image never lags behind the interpreter's libraries."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in files:
        found = path.stat()
        digest.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def assemble(root: Path, files: Iterable[Path]) -> None:
    """A root file system in which /bin and /lib are links into /usr, as on today's distributions."""
    for name in ("usr/bin", "usr/sbin", "usr/lib", "usr/lib64", *FOLDERS):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for path in files:
        target = root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    (root / "tmp").chmod(0o1777)
    (root / "var/tmp").chmod(0o1777)
    for name, text in {"passwd": "root:x:0:0:root:/root:/bin/bash\n", "group": "root:x:0:\n"}.items():
        (root / "etc" / name).write_text(text, encoding="ascii")
    for name in ("hosts", "resolv.conf", "localtime", MARKER):
        (root / "etc" / name).touch()  # Apptainer mounts the machine's over the first three
    if ldconfig := shutil.which("ldconfig", path="/sbin:/usr/sbin"):
        subprocess.run([ldconfig, "-r", str(root)], capture_output=True, timeout=STEP_S)
