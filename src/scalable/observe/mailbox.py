"""Questions to a live session, as files in its run folder, from any process or machine that sees the folder.

A command writes ``control/<time>-<random>.ask.json`` and waits for ``<same>.answer.json``; the session looks twice a
second. Every file is written beside and renamed, for its owner only. A question is taken once: it is removed before
anything is done about it, and whoever stops waiting takes it back, so nothing is done that nobody waits for.
"""

from __future__ import annotations

import getpass
import json
import os
import secrets
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalable.errors import ScalableError, UsageError
from scalable.observe.fields import mapping, number, text
from scalable.observe.files import PART, listing, write_beside
from scalable.observe.folders import RunFolder
from scalable.observe.journal import jsonable
from scalable.observe.liveness import RunState, is_running, silence_s, state_now, stopped
from scalable.observe.redact import redact
from scalable.quantities import Duration
from scalable.wording import plural

ASK, ANSWER, BYTES = ".ask.json", ".answer.json", ".bytes"
WITHIN_S = 30.0  # how long an answer is waited for; a session that is well needs less than one
ACT_WITHIN_S = 58.0  # what kills takes less than a minute, or it is reported
LOOK_WITHIN_S = 60.0  # a dump of a loaded machine's processes, and the worker's own time to answer
LOOK_S, LOOK_LATER_S = 0.05, 0.5  # how often a waiting command looks: soon at first, then as often as the session does
ALIVE_EVERY_S = 1.0  # how often it looks whether the session is still there
KEPT_S = 600.0  # how long an answer waits for someone who may be on a slow shared file system
SKEW_S = 60.0  # by which the clocks of two machines may differ before a question counts as too old
LARGEST = 1 << 16  # bytes of a question; more is not one of ours
LONGEST_TEXT = 1 << 22  # characters of a text in an answer: thread dumps of many processes


class NoAnswerError(ScalableError):
    """The session is gone, does not answer in time, or cannot be asked; the message says which and what to do."""


class SessionRefusedError(ScalableError):
    """The session's answer is that it cannot; the message is its sentence."""


class WrongQuestionError(SessionRefusedError, UsageError):
    """The session cannot because of how it was asked: a name it does not know, a number it cannot use."""


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    ask: str
    arguments: Mapping[str, Any]
    by: str = ""
    """Who asked, for the journal."""


def ask(
    run: RunFolder,
    question: str,
    /,
    *,
    within_s: float = WITHIN_S,
    by: str = "",
    stop: Callable[[], bool] = lambda: False,
    **arguments: Any,
) -> dict[str, Any]:
    """Ask a live session and wait for its answer. Raises ``SessionRefusedError`` with the session's own sentence.

    ``by`` is who asks, for the journal; the user of this process unless something is said. As soon as ``stop`` says so
    nobody waits any more, and a question that was not taken is taken back.
    """
    if (state := state_now(run)).over:
        over = (
            f"is lost: {host_of(run)} gave no sign for {Duration(silence_s(run))}"
            if state is RunState.LOST
            else "is over"
        )
        raise NoAnswerError(f"{run.run_id} {over}: nobody is there to ask; scalable report  shows what it did")
    if os.geteuid() == 0 and (user := run.path.stat().st_uid) != 0:  # what root makes here the session cannot read
        raise NoAnswerError(f"{run.run_id} is another user's; ask as that user: sudo -u '#{user}' scalable …")
    name = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    asked = {"ask": question, "arguments": arguments, "by": by or who(), "asked": time.time(), "within_s": within_s}
    try:
        run.control.mkdir(mode=0o700, exist_ok=True)
        write(run.control / f"{name}{ASK}", json.dumps(jsonable(asked)).encode())
    except OSError as error:
        owner = f", as the user who started {run.run_id}" if isinstance(error, PermissionError) else ""
        raise NoAnswerError(f"{run.control} cannot be written: {error.strerror}; ask where it can be{owner}") from None
    try:
        answer = wait(run, name, time.monotonic() + within_s, stop)
    except OSError as error:
        raise NoAnswerError(f"{run.control} may not be read: {error.strerror}; its answer cannot be seen") from None
    finally:
        taken = not withdrawn(run.control / f"{name}{ASK}")
        remove(run.control, name)
    if answer is None:
        raise NoAnswerError(silence(run, question, within_s, taken))
    if answer.get("ok") is not True:
        refused = WrongQuestionError if answer.get("usage") is True else SessionRefusedError
        raise refused(text(answer.get("error")) or f"{run.run_id} answered in a way that cannot be read")
    return answer


def wait(run: RunFolder, name: str, deadline: float, stop: Callable[[], bool]) -> dict[str, Any] | None:
    """Return the answer, or nothing if time is over, or the session ended without one or is stopped."""
    look_s, alive_at = LOOK_S, time.monotonic() + ALIVE_EVERY_S
    while True:
        late = time.monotonic() >= deadline or stop()
        gone = time.monotonic() >= alive_at and (not is_running(run) or stopped(run) is not None)
        if time.monotonic() >= alive_at:
            alive_at = time.monotonic() + ALIVE_EVERY_S
        # a listing asks the server of a shared file system; a look at the file alone may see a remembered absence
        if f"{name}{ANSWER}" in listing(run.control):
            return restored(run.control, name)
        if late or gone:
            return None
        time.sleep(min(look_s, max(0.0, deadline - time.monotonic())))
        look_s = min(look_s * 1.2, LOOK_LATER_S)


def silence(run: RunFolder, question: str, within_s: float, taken: bool) -> str:
    if not is_running(run):
        return f"{run.run_id} ended before it answered; scalable report  shows what it did"
    host = host_of(run)
    if taken:
        return (
            f"{run.run_id} took the question ({question}) and has not answered within {within_s:.0f} s; it may still "
            "do what was asked: scalable status  and  scalable logs  show what it does"
        )
    if (pid := stopped(run)) is not None:
        return (
            f"{run.run_id} cannot answer, and the question was taken back: its process {pid} is stopped (Ctrl-Z or "
            f"SIGSTOP); kill -CONT {pid}  lets it go on"
        )
    return (
        f"{run.run_id} on {host} did not answer within {within_s:.0f} s, and the question was taken back: its process "
        f"is busy, stopped or gone. scalable status  shows its last sign of life; on {host} itself the command can "
        "tell whether the process is there"
    )


def host_of(run: RunFolder) -> str:
    return text(run.facts().get("host")) or "its machine"


class Mailbox:
    """The session's side. ``questions`` never raises and costs one listing; without a folder, not even that."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tidy_at = time.monotonic() + KEPT_S

    def questions(self) -> Iterator[Question]:
        """Yield new ones, the oldest first, each once. Damaged, foreign and outdated ones are answered here."""
        try:
            file_names = listing(self.folder)
        except OSError:  # a disk that does not answer; who asks sees that nobody takes the question
            file_names = []
        if file_names and time.monotonic() >= self.tidy_at:
            self.tidy_at = time.monotonic() + KEPT_S / 10
            self.tidy(file_names)
        for name in sorted(name for name in file_names if name.endswith(ASK)):
            question = self.take(name)
            if isinstance(question, Question):
                yield question
            elif question:
                self.answer(name.removesuffix(ASK), {"ok": False, "error": question})

    def take(self, name: str) -> Question | str:
        """Return a question, or why it is none; nothing if its asker has just taken it back."""
        path = self.folder / name
        try:
            data, owner = read(path)
        except FileNotFoundError:
            return ""
        except OSError as error:
            why = f"the question cannot be read by the session: {error.strerror}; ask as the user who started it"
            return why if withdrawn(path) else ""
        if not withdrawn(path):
            return ""
        if owner not in (os.geteuid(), 0):
            return "the question is another user's; ask as the user who started the session"
        try:
            question = mapping(json.loads(data))
        except (ValueError, RecursionError):
            question = {}
        kind, asked, within_s = (
            text(question.get("ask")),
            number(question.get("asked")),
            number(question.get("within_s")),
        )
        if not kind or asked is None or within_s is None or len(data) > LARGEST:
            return "the question is damaged or of another version of scalable; ask again with this one"
        if (late := time.time() - asked - within_s) > SKEW_S:
            return f"the question came {late:.0f} s too late and nothing was done; ask again, or set the clocks right"
        return Question(name.removesuffix(ASK), kind, mapping(question.get("arguments")), text(question.get("by")))

    def answer(self, question: str, answer: Mapping[str, Any]) -> None:
        """Answer a question by its id. What is bytes goes into a file beside; a disk that takes nothing is no error."""
        reply = dict(answer)
        try:
            for key, value in answer.items():
                if isinstance(value, bytes):
                    reply[key] = {"file": f"{question}.{key}{BYTES}"}
                    write(self.folder / reply[key]["file"], value)
            content = redact(jsonable(reply, LONGEST_TEXT))
            write(self.folder / f"{question}{ANSWER}", json.dumps(content).encode("utf-8", "backslashreplace"))
        except OSError as error:
            remove(self.folder, question)
            short = {"ok": False, "error": f"the answer cannot be written to {self.folder}: {error.strerror}"}
            with suppress(OSError):
                write(self.folder / f"{question}{ANSWER}", json.dumps(short).encode())

    def tidy(self, file_names: list[str]) -> None:
        """Remove answers that nobody fetched, and what writers left that were killed."""
        for name in file_names:
            path = self.folder / name
            with suppress(OSError):
                if name.endswith((ANSWER, BYTES, PART)) and time.time() - path.lstat().st_mtime > KEPT_S:
                    path.unlink()

    def close(self) -> None:
        """Tell those who still wait that nobody will do anything any more."""
        for question in self.questions():
            self.answer(question.id, {"ok": False, "error": "the session is closing; nothing was done"})


def read(path: Path) -> tuple[bytes, int]:
    """Return a file's content and owner; a link is not followed, and nothing waits for the other end of a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        return (os.read(descriptor, LARGEST + 1) if stat.S_ISREG(facts.st_mode) else b""), facts.st_uid
    finally:
        os.close(descriptor)


def write(path: Path, data: bytes) -> None:
    """Write a whole file at once, readable only for its owner."""
    write_beside(path, data, mode=0o600)


def restored(folder: Path, name: str) -> dict[str, Any] | None:
    """Return an answer with the bytes that lie beside it; one that cannot be read is empty."""
    try:
        answer = json.loads((folder / f"{name}{ANSWER}").read_bytes())
        for key, value in answer.items():
            if isinstance(value, dict) and value.get("file") == f"{name}.{key}{BYTES}":
                answer[key] = (folder / value["file"]).read_bytes()
    except (OSError, ValueError, AttributeError):
        return {}
    content: dict[str, Any] = answer
    return content


def withdrawn(path: Path) -> bool:
    """Return whether we removed it, and nobody else had."""
    try:
        path.unlink()
    except OSError:
        return False
    return True


def remove(folder: Path, name: str) -> None:
    """Remove what belongs to a question."""
    with suppress(OSError):
        for each in listing(folder):
            if each.startswith(f"{name}."):
                withdrawn(folder / each)


def who() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError, ImportError):  # a user without a name, as in many containers
        return f"user {os.getuid()}@{socket.gethostname()}"


def paused(answer: Mapping[str, Any], *, now: bool) -> list[str]:
    """Return what becomes of runs and workers, a phrase each."""
    stopped, running, waiting = len(answer["stopped"]), len(answer["running"]), answer["waiting"]
    phrases = [f"{plural(stopped, 'job')} stopped, to be run again at no retry's cost"] if stopped else []
    phrases += [f"{plural(running, 'job')} may end"] if running else []
    phrases += [f"{waiting} more {'waits' if waiting == 1 else 'wait'}"] if waiting else []
    return phrases + (["workers go"] if now else [])


def not_paused(answer: Mapping[str, Any]) -> str:
    """Return what a pause does not reach; empty if it reaches everything."""
    outside = answer["outside"]
    return f"{plural(outside, 'task')} handed to Dask directly cannot be paused and go on" if outside else ""


def killed(answer: Mapping[str, Any]) -> str:
    return f"killed {answer['killed']}: {answer['follows']}"
