"""The folder of a run: one small class that owns every path in it, and finds runs again.

``.scalable/runs/run-<UTC time>-<project>-<8 hex>/`` (``SCALABLE_RUNS_DIR`` moves it) holds ``run.json`` (what is
running), ``live.json`` (what is true this moment), ``journal.jsonl``, ``events.jsonl`` (what the engine was told and
answered), ``logs/``, ``incidents/``, ``works/`` (what did not finish, to be run again by hand), ``control/`` (what
people ask of it while it runs) and at the end ``report.json``.
The hex digits are the microseconds of the start and some chance, so that names sort as runs started.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from scalable.errors import ScalableError, UsageError
from scalable.observe.files import is_seal, make_private, open_regular, sealed, write_beside
from scalable.observe.journal import jsonable
from scalable.observe.redact import redact

RUNS_DIR = "SCALABLE_RUNS_DIR"
MANIFEST = "SCALABLE_MANIFEST"
FILE = "scalable.yaml"  # the manifest of a project, unless another is named
STATE = ".scalable"  # the folder of a project in which all that it keeps lies
STREAMS = ("/dev/", "/proc/")  # a manifest that is read from one has no folder
NAME = re.compile(r"run-(\d{8}T\d{6}Z)-(.+)-([0-9a-f]{8})")
CLOCKS_DIFFER = timedelta(days=1)  # how far apart the clocks of two machines may be
LONGEST_NAME = 60  # characters of a project or worker in a file name; some file systems allow 143 in all
NAMED = 5  # runs listed in messages


class RunFolderError(ScalableError):
    """A run folder that cannot be made, written or read."""

    @classmethod
    def unreadable(cls, path: Path, error: OSError) -> RunFolderError:
        return cls(f"{path} may not be read: {error.strerror}")


class UnknownRunError(UsageError):
    """A run that is not recorded; the message names the latest ones that are."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    path: Path

    @classmethod
    def create(cls, project: str, base: Path | str | None = None, now: datetime | None = None) -> RunFolder:
        """Make the folder of a run that starts now."""
        runs = runs_dir(base).absolute()  # the program may change its working folder later
        start = (now or datetime.now(UTC)).astimezone(UTC)
        name = safe_name(project, "project")
        try:
            runs.mkdir(parents=True, exist_ok=True)
            while True:
                unique = f"{start.microsecond:05x}{secrets.token_hex(2)[:3]}"
                folder = cls(runs / f"run-{start:%Y%m%dT%H%M%SZ}-{name}-{unique}")
                try:
                    make_private(folder.path)
                except FileExistsError:
                    continue
                make_private(folder.logs)
                return folder
        except OSError as error:
            raise RunFolderError(
                f"no run can be recorded in {runs}: {error.strerror}; set {RUNS_DIR} to a folder you may write to"
            ) from None

    @classmethod
    def open(cls, run: str | Path, base: Path | str | None = None) -> RunFolder:
        """Return a run by its id, or by the path of its folder."""
        for folder in (cls(runs_dir(base).absolute() / run), cls(Path(run).absolute())):
            with suppress(OSError):  # a name that is too long to exist
                if folder.path.is_dir() and (NAME.fullmatch(folder.run_id) or folder.journal.exists()):
                    return folder
        raise UnknownRunError(f"run {str(run)!r} is not recorded in {runs_dir(base)}; {cls.known(base)}")

    @classmethod
    def find(
        cls, run_id: str | None = None, *, manifest: str | Path | None = None, base: Path | str | None = None
    ) -> RunFolder:
        """Return the run that is meant: the one named, else the latest, of one manifest if that is named."""
        base = runs_dir(base, manifest)
        if run_id is not None:
            return cls.open(run_id, base)
        folder = cls.latest(base, manifest)
        if folder is None:
            of = f" of {manifest}" if manifest is not None else ""
            raise UnknownRunError(f"no run{of} is recorded in {runs_dir(base)}; {cls.known(base)}")
        return folder

    @classmethod
    def latest(cls, base: Path | str | None = None, manifest: str | Path | None = None) -> RunFolder | None:
        """Return the latest run; of a folder that several people use, the latest of one's own if there is one."""
        runs = tuple(reversed(cls.list(runs_dir(base, manifest))))
        own = (run for run in runs if run.is_mine())
        return next((run for run in chain(own, runs) if manifest is None or run.is_of(manifest)), None)

    @classmethod
    def known(cls, base: Path | str | None = None) -> str:
        """Return what to say after "is not recorded"."""
        latest = [run.run_id for run in reversed(cls.list(base)[-NAMED:])]
        return f"the latest: {', '.join(latest)}" if latest else f"none is there; {RUNS_DIR} says where to look"

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def events(self) -> Path:
        """The file of what the engine was told and answered; runs of early versions have none."""
        return self.path / "events.jsonl"

    @property
    def run_file(self) -> Path:
        return self.path / "run.json"

    @property
    def live_file(self) -> Path:
        """The file of what is true this moment, while the session lives."""
        return self.path / "live.json"

    @property
    def report_file(self) -> Path:
        return self.path / "report.json"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def control(self) -> Path:
        """The folder of questions to the live session, and of its answers."""
        return self.path / "control"

    @property
    def targets_file(self) -> Path:
        """The file that tells Prometheus where the live session's figures are; ``targets_dir`` says why not in here."""
        return targets_dir(self.path.parent) / f"{self.run_id}.json"

    @property
    def works(self) -> Path:
        return self.path / "works"

    def log(self, worker: str) -> Path:
        """Return where a worker's output goes."""
        return self.logs / f"{own_name(worker, 'worker')}.log"

    def work(self, run: str) -> Path:
        """Return where the pickled function and arguments of a run are kept that did not finish."""
        return self.works / f"{own_name(run, 'run')}.pickle"

    def write_run(self, facts: Mapping[str, Any]) -> None:
        """Say what is running: the fields of ``run-started`` and whatever changes while it runs."""
        self._write(self.run_file, {**facts, "seal": sealed(*self._sealed(redact(jsonable(facts))))})

    def write_report(self, report: Mapping[str, Any]) -> None:
        self._write(self.report_file, report)

    def facts(self) -> dict[str, Any]:
        """Return what ``run.json`` says; nothing if it is missing or cannot be read."""
        return read_json(self.run_file)

    def live(self) -> dict[str, Any]:
        """Return what ``live.json`` says; nothing if the session is over, or it cannot be read."""
        return read_json(self.live_file)

    def must_be_own(self) -> None:
        """Refuse another user's run before anything is done that its records lead to: code, pickles and addresses."""
        for path in (self.path, self.run_file, self.journal):
            if path.exists() and (owner := path.stat().st_uid) not in (os.geteuid(), 0):
                raise RunFolderError(
                    f"{self.run_id} is another user's, whose code would run as yours; ask as that user: "
                    f"sudo -u '#{owner}' scalable …"
                )

    def is_mine(self) -> bool:
        try:
            return self.path.stat().st_uid == os.geteuid()
        except OSError:  # somebody removed it just now
            return False

    def is_sealed(self) -> bool:
        """Return whether this user made the run, here: else what it names may be anybody's code."""
        facts = self.facts()
        return is_seal(facts.get("seal"), *self._sealed(facts))

    def _sealed(self, facts: Mapping[str, Any]) -> tuple[str, ...]:
        return str(self.path.resolve()), *(str(facts.get(name)) for name in ("manifest", "cwd"))

    def is_of(self, manifest: str | Path) -> bool:
        written = self.facts().get("manifest")
        return isinstance(written, str) and Path(written).resolve() == Path(manifest).resolve()

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        try:
            write_beside(path, json.dumps(redact(jsonable(content)), indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise RunFolderError(f"{path} cannot be written: {error.strerror}") from None

    @classmethod
    def list(cls, base: Path | str | None = None) -> tuple[RunFolder, ...]:
        """Return all runs, the oldest first; a future date would be the latest for ever, so it counts as oldest."""
        runs = runs_dir(base)
        try:
            names = [entry.name for entry in os.scandir(runs) if NAME.fullmatch(entry.name) and entry.is_dir()]
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise RunFolderError(f"{runs} cannot be read: {error.strerror}") from None
        return tuple(cls(runs.absolute() / name) for name in sorted(names, key=age))


def runs_dir(base: Path | str | None = None, manifest: Path | str | None = None) -> Path:
    """Return where runs are recorded: what is named, else ``SCALABLE_RUNS_DIR``, else ``.scalable/runs``.

    That lies in the folder of the manifest that is meant, see ``find_manifest``.
    """
    if named := base or os.environ.get(RUNS_DIR):
        return Path(named)
    runs = Path(STATE, "runs")
    folder = project_folder(find_manifest(manifest))
    return runs if folder == Path.cwd() else folder / runs


def find_manifest(named: Path | str | None = None, env: Mapping[str, str] = os.environ) -> Path:
    """Return the manifest that is meant: the one named, else ``SCALABLE_MANIFEST``, else ``scalable.yaml``.

    That is looked for in the current folder, then in those above it, as far as they are this user's: a manifest names
    code that is run. Where none is found it is the one that would be in the current folder.
    """
    if given := named or env.get(MANIFEST):
        return Path(given)
    here = Path.cwd()
    if not (here / FILE).exists() and not (here / STATE).is_dir():
        for folder in here.parents:
            if is_own(folder / FILE):
                return folder / FILE
    return Path(FILE)


def is_own(path: Path) -> bool:
    """Return whether a file is there and belongs to this user or to the machine's administrator."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return owner in (os.getuid(), 0) and path.is_file()


def project_folder(manifest: Path | str) -> Path:
    """Return the folder that relative paths in a manifest start from; the current one if it is read from a pipe.

    The folder itself may be named, too.
    """
    path = Path(manifest).absolute()
    if str(path).startswith(STREAMS):
        return Path.cwd()
    return path.resolve() if path.is_dir() else path.resolve().parent


def state_dir(base: Path | str | None = None) -> Path:
    """Return where a project keeps what belongs to all of its runs: the folder ``.scalable`` around them.

    Where runs are recorded elsewhere, that is among them: the folder around them may be others', too.
    """
    runs = runs_dir(base)
    return runs.parent if runs.parent.name == STATE else runs


def state_file(name: str, base: Path | str | None = None) -> Path:
    """Return a file or folder of ``state_dir``; one that an earlier version left among the runs is moved there."""
    path, earlier = state_dir(base) / name, runs_dir(base) / name
    if not path.exists() and earlier.exists():
        try:
            earlier.rename(path)
        except FileNotFoundError:  # another process has just moved it
            return path
        except OSError:  # who may only read
            return earlier
    return path


def targets_dir(base: Path | str | None = None) -> Path:
    """Return the folder of files for Prometheus, beside the runs: it takes patterns in file names, not in folders."""
    return state_file("targets", base)


def read_json(path: Path) -> dict[str, Any]:
    """Return an object in a file; an empty one if it is missing or cannot be read."""
    try:
        with open_regular(path) as file:
            content = json.loads(file.read().decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def safe_name(text: str, instead: str) -> str:
    """Return a text as part of a file name on any system: plain letters, digits, dots, dashes."""
    simple = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", simple).strip("-._")[:LONGEST_NAME].rstrip("-._") or instead


def own_name(text: str, instead: str) -> str:
    """Return the same; names that are no file names, or too long, get a part that keeps them apart."""
    name = safe_name(text, instead)
    if name == text:
        return name
    return f"{name}-{hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:8]}"


def age(name: str) -> tuple[bool, str, str]:
    """Return what runs are sorted by; the time in a name may be one that no clock can have shown."""
    match = NAME.fullmatch(name)
    latest = f"{datetime.now(UTC) + CLOCKS_DIFFER:%Y%m%dT%H%M%SZ}"
    return (match[1] <= latest, match[1], match[3]) if match else (True, name, "")
