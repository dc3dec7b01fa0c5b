"""The thread that logs sweeps, and the folder in which they wait for a server that is down.

A record is written to the folder first and removed when the server has taken it, so what could not be logged is logged
by the next driver that opens the same server. Whoever sends a record holds a lock on it. Nothing here raises into a
sweep or keeps it waiting: trouble is told once, as a warning.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from scalable.store.leases.files import file_lease
from scalable.store.tracking.mlflow import (
    ForbiddenError,
    MlflowServer,
    RejectedError,
    SweepRecord,
    TrackingError,
    UnreachableError,
)
from scalable.wording import file_name, plural

logger = logging.getLogger(__name__)

VARIABLE = "MLFLOW_TRACKING_URI"
OUTBOX = ".scalable/tracking"
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
PATIENCE_S = 10.0  # how long the end of a sweep waits for a server that answers; one that does not is not waited for
REJECTED = ".rejected"
LONGEST_NAME = 100  # characters of a record's id in the name of its file


def open_tracker(
    url: str | None = None, *, outbox: str | os.PathLike[str] = OUTBOX, tell: Callable[[str], None] = logger.warning
) -> Tracker:
    """Return a tracker for this server, else for ``MLFLOW_TRACKING_URI``, else one that logs nothing.

    An address that no server can have is refused if it was given here; the variable may be meant for other programs.
    """
    if url:
        return Tracker(MlflowServer(url), Path(outbox), tell)
    variable = os.environ.get(VARIABLE)
    if not variable:
        return Tracker(None, Path(outbox), tell)
    try:
        return Tracker(MlflowServer(variable), Path(outbox), tell)
    except TrackingError as error:
        tell(f"{VARIABLE} is not used: {error}")
        return Tracker(None, Path(outbox), tell)


class Tracker:
    """Use as ``with open_tracker(url) as tracker``, and call ``log`` whenever there is more to tell of a sweep."""

    def __init__(self, server: MlflowServer | None, outbox: Path, tell: Callable[[str], None]) -> None:
        self.server = server
        self.outbox = outbox.absolute()
        self.tell = tell
        self.warned: set[type[Exception]] = set()
        self.changed = threading.Condition()
        self.asked = self.answered = self.failures = 0
        self.closing = False
        self.thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self.server is not None and next(self.waiting(), None) is not None:
            self.wake()  # with what earlier sweeps left
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def log(self, record: SweepRecord) -> None:
        """Tell the server of a sweep, soon; an earlier record of the same ``id`` need not be told any more."""
        if self.server is None:
            return
        path = self.outbox / f"{file_name(record.id, LONGEST_NAME)}.json"
        try:
            self.outbox.mkdir(parents=True, exist_ok=True)
            beside = path.with_suffix(f".{uuid4().hex}.new")
            beside.write_text(json.dumps({"url": self.server.url, "record": record.to_json()}), encoding="utf-8")
            with self.changed:
                beside.replace(path)
        except OSError as error:
            self.warn(error, f"sweep {record.name} is not logged: {self.outbox}: {error.strerror}")
            return
        self.wake()

    def flush(self, within_s: float = PATIENCE_S, *, tries: int | None = None) -> bool:
        """Wait until all that was logged so far is told, or this many tries failed; False if some of it still waits."""
        until = time.monotonic() + within_s
        with self.changed:
            target = self.asked
            while self.answered < target and (left := until - time.monotonic()) > 0:
                if tries is not None and self.failures >= tries:
                    break
                self.changed.wait(left)
        return self.server is None or next(self.waiting(), None) is None

    def close(self, within_s: float = PATIENCE_S) -> None:
        """Stop; what the server has not taken by then waits for the next tracker."""
        is_told = self.flush(within_s, tries=1) if self.thread is not None else True
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        if not is_told:
            count = plural(sum(1 for _ in self.waiting()), "sweep")
            self.tell(f"{count} could not be logged to MLflow yet; kept in {self.outbox}, the next sweep logs them")

    def wake(self) -> None:
        with self.changed:
            self.asked += 1
            self.failures = 0
            self.changed.notify_all()
            if self.thread is None:
                self.thread = threading.Thread(target=self.work, name="scalable-tracking", daemon=True)
                self.thread.start()

    def work(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            with self.changed:
                while self.answered == self.asked and not self.closing:
                    self.changed.wait()
                if self.closing:
                    return
                target = self.asked
            if self.send_all():
                pause = FIRST_PAUSE_S
                with self.changed:
                    self.answered = target
                    self.changed.notify_all()
                continue
            with self.changed:
                self.failures += 1
                self.changed.notify_all()
                if self.asked == target and not self.closing:
                    self.changed.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def send_all(self) -> bool:
        """Send what waits; False if it is worth trying again soon."""
        assert self.server is not None
        for path in self.waiting():
            with file_lease(path.with_suffix(".part"), wait=False) as mine:
                if mine is None:  # another driver is at it
                    continue
                try:
                    content = path.read_text(encoding="utf-8")
                    self.server.send(SweepRecord.from_json(json.loads(content)["record"]))
                    with self.changed:
                        if path.read_text(encoding="utf-8") == content:  # else there is more to tell already
                            path.unlink()
                except FileNotFoundError:
                    continue
                except UnreachableError as error:
                    self.warn(error, f"MLflow cannot be reached, the sweep goes on and is logged later: {error}")
                    return False
                except ForbiddenError as error:
                    self.warn(error, f"sweeps are not logged to MLflow: {error}")
                    return True  # no try before the next record will be better
                except (RejectedError, OSError, ValueError, TypeError, KeyError) as error:
                    path.replace(path.with_suffix(REJECTED))
                    self.warn(error, f"a sweep is not logged to MLflow, kept as {path.with_suffix(REJECTED)}: {error}")
        return True

    def waiting(self) -> Iterator[Path]:
        """Yield records for this server, also those of earlier sweeps."""
        for path in sorted(self.outbox.glob("*.json")):
            try:
                url = json.loads(path.read_text(encoding="utf-8"))["url"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if self.server is not None and url == self.server.url:
                yield path

    def warn(self, error: Exception, message: str) -> None:
        if type(error) not in self.warned:
            self.warned.add(type(error))
            self.tell(message)
