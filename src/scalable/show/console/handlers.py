"""What the console answers to which path. Every request passes the guard first; answers are JSON but for the page.

What a person may ask for there, ``act`` does as the commands do.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tornado.iostream import StreamClosedError
from tornado.web import Application, RequestHandler

from scalable import __version__
from scalable.errors import ScalableError, UnknownNameError, UsageError
from scalable.observe import RunFolder, UnknownRunError, redact, redact_text
from scalable.observe.fields import text
from scalable.observe.folders import RunFolderError
from scalable.observe.incidents import IncidentFolder, UnknownIncidentError, evidence_lines
from scalable.observe.logs import LONGEST_LINE, LogReader, log_files, shown
from scalable.observe.mailbox import ACT_WITHIN_S, LOOK_WITHIN_S, ask, killed, not_paused, paused, who
from scalable.observe.redact import Redactor
from scalable.show.console.guard import HEADERS
from scalable.show.console.sections import mark_failed, replay
from scalable.wording import undefined

if TYPE_CHECKING:
    from scalable.show.console.server import Console

HEARTBEAT_S = 10.0  # so that a proxy does not take the stream for dead
LOG_LINES = 200
TYPES = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".json": "application/json",
}  # fmt: skip
LOCKED = (
    "Each address of this console lets one tab in, once. Press Enter in the terminal where scalable console runs: it "
    "prints a new address. If it runs in no terminal, start it again; runs go on."
)


def application(console: Console) -> Application:
    paths: list[tuple[str, type[Handler]]] = [
        ("/", Page),
        ("/static/([A-Za-z0-9_.-]+)", Static),
        ("/api/enter", Enter),
        ("/api/session", SessionFacts),
        ("/api/runs", Runs),
        ("/api/stream", EventStream),
        ("/api/results", Results),
        ("/api/incident", OneIncident),
        ("/api/log", Log),
        ("/api/action", Action),
    ]
    given = {"console": console}
    routes: list[Any] = [(path, handler, given) for path, handler in paths]
    return Application(routes, default_handler_class=Nothing, default_handler_args=given, log_function=quiet)


def quiet(handler: RequestHandler) -> None:
    """Nobody reads what a console that works logs."""


class Handler(RequestHandler):
    """Lets in who may come in; who may not gets no more than a sentence."""

    open_to_all = False

    def initialize(self, console: Console) -> None:
        self.console = console
        self.guard = console.guard

    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")

    async def prepare(self) -> None:
        if why := self.guard.refuses(self.request.path, self.request.headers):
            self.refuse(403, why)
        elif self.guard.admits(self.request.headers):
            self.console.server.admit(self.request.connection.stream)  # type: ignore[union-attr]
        elif not self.open_to_all:
            self.refuse(403, LOCKED)

    def refuse(self, status: int, why: str) -> None:
        self.set_status(status)
        self.answer({"ok": False, "error": why})

    def answer(self, content: Any) -> None:
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps(content))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        words = {404: "there is nothing here", 405: "that cannot be done here"}
        self.answer({"ok": False, "error": words.get(status_code, self._reason)})

    async def answer_with(self, work: Awaitable[dict[str, Any]] | Callable[[], Any]) -> None:
        """Answer what comes of something, or why nothing does."""
        try:
            self.answer(await (asyncio.to_thread(work) if callable(work) else work))
        except (UnknownRunError, UnknownIncidentError, UnknownNameError) as error:
            self.refuse(404, str(error))
        except ScalableError as error:
            self.refuse(400 if isinstance(error, UsageError) else 409, str(error))

    def run(self) -> RunFolder:
        return self.console.board.open(self.get_query_argument("run", ""))


class Page(Handler):
    """The page itself: the same for everybody, and of no use without a token."""

    open_to_all = True

    async def get(self) -> None:
        self.set_header("Content-Type", TYPES[".html"])
        self.finish(packaged("index.html") or "")


class Static(Handler):
    """The page's other files; the browser asks each time whether its copy is still the right one."""

    open_to_all = True

    async def get(self, name: str) -> None:
        suffix = name[name.rfind(".") :]
        content = packaged(name) if suffix in TYPES and not name.startswith(".") else None
        if content is None:
            self.send_error(404)
            return
        self.set_header("Content-Type", TYPES[suffix])
        self.set_header("Cache-Control", "no-cache")
        self.finish(content)  # with a tag of its content, or 304 if the browser has that


class Enter(Handler):
    """Exchanges the token of an address for that of a session."""

    open_to_all = True

    async def post(self) -> None:
        session = self.guard.enter(self.request.body.decode("utf-8", "replace"))
        if session is None:
            self.refuse(403, LOCKED)
        else:
            self.answer({"token": session})


class SessionFacts(Handler):
    async def get(self) -> None:
        self.answer({"read_only": self.guard.read_only, "version": __version__})


class Runs(Handler):
    async def get(self) -> None:
        await self.answer_with(self.console.board.runs)


class EventStream(Handler):
    """Sections of a run as server-sent events, until the page goes away."""

    async def get(self) -> None:
        try:
            async with self.console.watching.watched(self.get_query_argument("run", "")) as watcher:
                self.leave = watcher.close
                self.set_header("Content-Type", "text/event-stream; charset=utf-8")
                self.set_header("X-Accel-Buffering", "no")
                await self.flush()  # the page is live before anything happens in the run
                while not watcher.closed:
                    self.write(await watcher.next(HEARTBEAT_S) or ": still here\n\n")
                    await self.flush()  # a slow reader makes only this wait
        except UnknownRunError as error:
            self.refuse(404, str(error))
        except RunFolderError as error:
            self.refuse(409, str(error))
        except StreamClosedError:
            return

    def on_connection_close(self) -> None:
        if leave := getattr(self, "leave", None):
            leave()


class Results(Handler):
    async def get(self) -> None:
        await self.answer_with(self.content())

    async def content(self) -> dict[str, Any]:
        run = await asyncio.to_thread(self.run)
        sweep = self.get_query_argument("sweep", "")
        feed = self.console.watching.feeds.get(run.run_id)
        progress = feed.view.sweeps.get(sweep) if feed else None
        rows = (progress.rows, progress.failed, progress.status) if progress else await asyncio.to_thread(size_of, run)
        return await self.console.judging.results(run, sweep, rows)


class OneIncident(Handler):
    async def get(self) -> None:
        await self.answer_with(self.content)

    def content(self) -> dict[str, Any]:
        written = self.get_query_argument("id", "")
        if not (written.isascii() and written.isdecimal() and len(written) < 10):
            raise UsageError(f"{written!r} is no number of an incident")
        run = self.run()
        incident = IncidentFolder(run.path).get(int(written)).to_dict()
        return {"run_id": run.run_id, **incident, "text": "\n".join(evidence_lines(redact(dict(incident["evidence"]))))}


class Log(Handler):
    async def get(self) -> None:
        await self.answer_with(self.content)

    def content(self) -> dict[str, Any]:
        run, worker = self.run(), self.get_query_argument("worker", "")
        path = run.log(worker)
        if path.stem not in log_files(run.logs):
            raise UnknownNameError(f"worker {worker!r} has no log in {run.run_id}")
        reader, redactor = LogReader(run.logs, path.stem, most_bytes=LOG_LINES * LONGEST_LINE), Redactor()
        lines = [part for line in reader.begin(LOG_LINES, last=True)[path.stem] for part in line.splitlines() or [""]]
        for error in reader.unreadable.values():
            raise error
        texts = [shown(line, redactor) for line in lines[-LOG_LINES:]]
        return {"worker": worker, "lines": texts, "cut": bool(reader.cut_off)}


class Action(Handler):
    async def post(self) -> None:
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip()
        if self.guard.read_only:
            self.refuse(403, "this console is read-only; start it without --read-only to act")
        elif kind != "application/json":
            self.refuse(415, "an action is sent as application/json")
        else:
            await self.answer_with(self.acted())

    async def acted(self) -> dict[str, Any]:
        try:
            asked = json.loads(self.request.body)
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict) or not isinstance(asked.get("run"), str):
            raise UsageError('an action is an object such as {"action": "pause", "run": "run-…"}')
        run = await asyncio.to_thread(self.console.board.open, asked["run"])
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(
            self.console.askers, partial(act, run, asked, lambda: self.console.closing)
        )
        self.console.judging.forget()
        if feed := self.console.watching.feeds.get(run.run_id):
            feed.recount()
        return {"ok": True, **outcome}


class Nothing(Handler):
    async def prepare(self) -> None:
        await super().prepare()
        if not self._finished:
            self.send_error(404)


def packaged(name: str) -> bytes | None:
    """Return a file of the page; nothing if there is none of this name."""
    try:
        return (files("scalable.show.console") / "static" / name).read_bytes()
    except OSError:
        return None


def size_of(run: RunFolder) -> int:
    return run.journal.stat().st_size if run.journal.exists() else 0


Stop = Callable[[], bool]


def act(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    """Do it and say what came of it; raises ``ScalableError`` if it cannot be done.

    Waits for the session's answer until ``stop`` says that nobody wants it any more.
    """
    action = text(asked.get("action"))
    if action not in ACTIONS:
        raise UsageError(undefined("action", action, ACTIONS))
    return ACTIONS[action](run, asked, stop)


def pause(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    now = asked.get("now") is True
    answer = ask(run, "pause", within_s=ACT_WITHIN_S, by=by(), stop=stop, now=now)
    phrases = list(filter(None, (*paused(answer, now=now), not_paused(answer))))
    return {"text": f"paused{': ' if phrases else ''}{', '.join(phrases)}"}


def resume(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    answer = ask(run, "resume", by=by(), stop=stop)
    if still := text(answer.get("still")):
        return {"text": f"not paused by a person any more, but it waits: {still}"}
    return {"text": "it goes on" if answer["was"] else "it was not paused"}


def kill(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    answer = ask(run, "kill", within_s=ACT_WITHIN_S, by=by(), stop=stop, target=target(asked))
    return {"text": killed(answer)}


def dump(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    name = target(asked)
    answer = ask(run, "dump", within_s=LOOK_WITHIN_S, by=by(), stop=stop, target=name)
    content = {"worker": answer["worker"], "run": answer["run"], "dump": redact_text(str(answer["text"]))}
    return {"text": f"what every thread of {name} does", **content}


def mark(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    reason = text(asked.get("reason")).strip()
    if not reason:
        raise UsageError("the reason is empty; say what is wrong with the results, for those who ask")
    return {"text": mark_failed(run, target(asked), reason)}


def replay_letters(run: RunFolder, asked: Mapping[str, Any], stop: Stop) -> dict[str, Any]:
    return {"text": replay(run)}


def target(asked: Mapping[str, Any]) -> str:
    if not (name := text(asked.get("target"))):
        raise UsageError("what is meant? name a worker, a run or a sweep as target")
    return name


def by() -> str:
    """For the journal."""
    return f"{who()} (console)"


ACTIONS: dict[str, Callable[[RunFolder, Mapping[str, Any], Stop], dict[str, Any]]] = {
    "pause": pause,
    "resume": resume,
    "kill": kill,
    "dump": dump,
    "mark-failed": mark,
    "replay": replay_letters,
}
