"""``scalable console`` as a person starts and ends it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from socket import socket
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from scalable.cli.main import main
from scalable.errors import MissingExtraError
from scalable.observe.mailbox import ACT_WITHIN_S
from scalable.show.console.guard import Guard
from scalable.show.console.server import Console, Options
from tests.helpers.console.client import Client
from tests.helpers.observe.builders import a_live_run, a_run
from tests.helpers.waiting import until


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A console in a process of its own, and the address it prints."""
    command = [sys.executable, "-m", "scalable", "console", "--port", "0", *arguments]
    process = subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate(timeout=60)


@pytest.mark.journey
def test_it_prints_its_address_and_ends_in_peace_at_ctrl_c(tmp_path: Path) -> None:
    run = a_run(tmp_path / "elsewhere")
    with started(tmp_path, "--run-id", str(run.path)) as (address, process):
        assert address.startswith("http://127.0.0.1:")
        assert run.run_id in shown(address)
        process.send_signal(signal.SIGINT)
        rest, complaints = process.communicate(timeout=60)
        assert (process.returncode, rest, complaints) == (0, "", "")


def test_ctrl_c_waits_for_no_answer_and_takes_the_question_back(tmp_path: Path) -> None:
    run = a_live_run(tmp_path)  # whose session never answers
    with started(tmp_path, "--run-id", str(run.path)) as (address, process):
        guard = Guard("127.0.0.1", int(address.split(":")[2].partition("/")[0]), token=address.partition("=")[2])
        guard = replace(guard, acting=Client(guard).get("/api/session").json["token"])
        asked = threading.Thread(target=ask, args=(guard, {"action": "pause", "run": run.run_id}))
        asked.start()
        assert until(lambda: list(run.control.glob("*")))
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=ACT_WITHIN_S / 2)
        asked.join()
        assert (process.returncode, complaints, list(run.control.glob("*"))) == (0, "", [])


def ask(guard: Guard, action: dict[str, str]) -> None:
    with suppress(HTTPException, OSError):
        Client(guard).post(action)


def shown(address: str) -> str:
    """What a browser sees of the runs that opens the address."""
    browser = build_opener(HTTPCookieProcessor())
    assert "<title>" in browser.open(address, timeout=60).read().decode()
    return str(browser.open(address.partition("?")[0] + "api/runs", timeout=60).read().decode())


def test_other_machines_are_let_in_only_to_read_unless_that_is_chosen_and_it_warns(tmp_path: Path) -> None:
    with started(tmp_path, "--host", "0.0.0.0") as (_, process):
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "can be reached from other machines" in told and "ssh -L" in told and "read-only" in told


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("--port x", "write a number up to 65535"),
        ("--port 70000", "write a number up to 65535"),
        ("--port -1", "write a number up to 65535"),
        ("--host no.such.host.invalid", "write e.g. --host 127.0.0.1"),
        ("--host 192.0.2.1", "write e.g. --host 127.0.0.1"),
        ("--run-id nowhere", "is not recorded"),
        ("--run-id a-copy", "rename it back"),
        ("--read-only --allow-actions", "write one of them"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(
    words: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    a_run(tmp_path).path.rename(tmp_path / "a-copy")
    try:
        status = main(["console", *words.split()])
    except SystemExit as error:  # argparse ends by itself
        status = int(str(error.code))
    assert status == 2 and remedy in " ".join(capsys.readouterr().err.split())


def test_a_port_in_use_is_told_with_how_to_get_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert main(["console", "--port", port]) == 2
    assert f"port {port} on 127.0.0.1 is in use" in (said := capsys.readouterr().err) and "--port 0" in said


def test_without_its_extra_the_console_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tornado.httpserver", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'scalable\[console\]'"):
        asyncio.run(Console(Options(port=0)).open())
