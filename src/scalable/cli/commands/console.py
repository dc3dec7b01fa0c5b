"""``scalable console``: a page in the browser on which runs are seen live and acted on, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import webbrowser

from scalable.cli.output import console, errors, note
from scalable.errors import UsageError
from scalable.observe import RunFolder, runs_dir
from scalable.observe.folders import NAME
from scalable.show.console.guard import Guard, is_loopback
from scalable.show.console.server import Options, serve

HIGHEST_PORT = 65_535


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
    opened: asyncio.Future[Guard] = loop.create_future()
    opened.add_done_callback(lambda done: tell(done.result(), opens=opens))
    await serve(options, opened, over)


def tell(guard: Guard, *, opens: bool) -> None:
    """Where it is; the address is all that goes to stdout, so that a script can read it."""
    console().print(guard.address, soft_wrap=True, highlight=False)
    sys.stdout.flush()
    screen = errors()
    if not is_loopback(guard.host):
        what = "see what runs" if guard.read_only else "see what runs and act on it"
        text = (
            f"{guard.host} can be reached from other machines: who learns the address can {what}, and nothing on the "
            "way is encrypted. Safer: leave --host out and come through  ssh -L"
        )
        screen.print(note("!", text, "bold yellow"))
    if guard.read_only:
        why = "" if is_loopback(guard.host) else "; --allow-actions  lets who has the address act"
        screen.print(note("·", f"read-only: nothing can be done from the page{why}", "dim"))
    if screen.is_terminal:
        screen.print(note("·", "open it in a browser; Ctrl-C ends the console, runs go on", "dim"))
    if opens and not webbrowser.open(guard.address):
        screen.print(note("!", "no browser was found; open the address yourself", "bold yellow"))
