"""``scalable console``: a page in the browser on which runs are seen live and acted on, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import tempfile
import webbrowser
from contextlib import ExitStack
from pathlib import Path

from scalable.cli.output import console, errors, note
from scalable.errors import UsageError
from scalable.observe import RunFolder, runs_dir
from scalable.observe.folders import NAME
from scalable.show.console.guard import AccessGuard, is_loopback
from scalable.show.console.server import Options, serve

HIGHEST_PORT = 65_535
LOOK_AGAIN_S = 1.0  # how soon a console in the background looks whether its terminal is its own again
REDIRECT = '<!doctype html><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url={}">'


def run(options: argparse.Namespace) -> int:
    chosen = RunFolder.open(options.run_id) if options.run_id is not None else None
    if chosen is not None and not NAME.fullmatch(chosen.run_id):
        raise UsageError(
            f"--run-id {chosen.run_id}: the folder of a run must have the name it was given, run-…; rename it back"
        )
    beyond = not is_loopback(options.host)
    if options.read_only and options.allow_actions:
        raise UsageError("--read-only and --allow-actions contradict each other; write one of them")
    asked = Options(
        host=options.host,
        port=port(options.port),
        read_only=options.read_only or (beyond and not options.allow_actions),
        runs=chosen.path.parent if chosen else runs_dir().absolute(),
        run_id=chosen.run_id if chosen else "",
    )
    logging.getLogger("tornado").setLevel(logging.ERROR)  # what a stranger sends is no news
    asyncio.run(until_stopped(asked, opens=options.open))
    return 0


def port(written: str) -> int:
    if not (written.isascii() and written.isdecimal() and int(written[:9]) <= HIGHEST_PORT):
        raise UsageError(f"--port is {written!r}; write a number up to {HIGHEST_PORT}, or 0 for one that is free")
    return int(written)


async def until_stopped(options: Options, *, opens: bool) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, over.set)
    opened: asyncio.Future[AccessGuard] = loop.create_future()
    with ExitStack() as stack:

        def show(started: asyncio.Future[AccessGuard]) -> None:
            guard = started.result()
            print_address(guard)
            explain(guard)
            if sys.stdin is not None and sys.stdin.isatty():
                print_more_addresses(guard, loop)
            if opens and not open_browser(guard, stack):
                errors().print(note("!", "no browser was found; open the address yourself", "bold yellow"))

        opened.add_done_callback(show)
        await serve(options, opened, over)


def print_address(guard: AccessGuard) -> None:
    """Print a new address; nothing else goes to stdout, so that a script can read it."""
    console().print(guard.invite(), soft_wrap=True, highlight=False)
    sys.stdout.flush()


def explain(guard: AccessGuard) -> None:
    screen = errors()
    if not is_loopback(guard.host):
        what = "see what runs" if guard.read_only else "see what runs and act on it"
        text = (
            f"{guard.host} can be reached from other machines: who learns the address first can {what}, and nothing on "
            "the way is encrypted. Safer: leave --host out and come through  ssh -L"
        )
        screen.print(note("!", text, "bold yellow"))
    if guard.read_only:
        why = "" if is_loopback(guard.host) else "; --allow-actions  lets who has the address act"
        screen.print(note("·", f"read-only: nothing can be done from the page{why}", "dim"))
    if screen.is_terminal:
        text = "open it in a browser: it lets one tab in. Enter prints another; Ctrl-C ends the console, runs go on"
        screen.print(note("·", text, "dim"))


def print_more_addresses(guard: AccessGuard, loop: asyncio.AbstractEventLoop) -> None:
    """Print a new address each time Enter is pressed."""
    terminal = sys.stdin.fileno()

    def pressed() -> None:
        if not may_read(terminal):
            loop.remove_reader(terminal)
            loop.call_later(LOOK_AGAIN_S, loop.add_reader, terminal, pressed)
        elif typed(terminal):
            print_address(guard)
        else:
            loop.remove_reader(terminal)

    loop.add_reader(terminal, pressed)


def may_read(terminal: int) -> bool:
    """Return whether this is the terminal's foreground job; any other that reads is stopped."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # it is not the terminal that controls this process, so reading it stops nobody
        return True


def typed(terminal: int) -> bytes:
    """Return what was typed; nothing at Ctrl-D, or when the terminal is gone."""
    try:
        return os.read(terminal, 1024)
    except OSError:
        return b""


def open_browser(guard: AccessGuard, stack: ExitStack) -> bool:
    """Open the page through a file that only this user can read: arguments of a browser are shown to everybody.

    The file goes away once the page is open, and with the console in any case.
    """
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="scalable-console-"))
    page = Path(folder, "open.html")
    page.touch(mode=0o600)
    page.write_text(REDIRECT.format(guard.invite(used=lambda: page.unlink(missing_ok=True))), encoding="utf-8")
    return webbrowser.open(page.as_uri())
