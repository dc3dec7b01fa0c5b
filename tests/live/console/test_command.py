"""``scalable console`` as a person starts and ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from socket import create_connection, socket

import pytest

from scalable.cli.main import main
from scalable.errors import MissingExtraError
from scalable.observe.mailbox import ACT_WITHIN_S
from scalable.show.console.server import Console, Options
from tests.helpers.console.client import Client, token_of
from tests.helpers.observe.builders import a_live_run, a_run
from tests.helpers.waiting import until


@contextmanager
def started(
    folder: Path, *arguments: str, stdin: int = subprocess.DEVNULL, files: int = 0
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A console in a process of its own, and the address it prints."""
    limited = ["sh", "-c", f'ulimit -S -n {files}; exec "$@"', "sh"] if files else []
    command = [*limited, sys.executable, "-m", "scalable", "console", "--port", "0", *arguments]
    process = subprocess.Popen(
        command,
        cwd=folder,
        text=True,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=stdin >= 0,
    )
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
        assert Client.at(address).get("/api/runs").json[0]["run_id"] == run.run_id
        process.send_signal(signal.SIGINT)
        rest, complaints = process.communicate(timeout=60)
        assert (process.returncode, rest, complaints) == (0, "", "")


def test_ctrl_c_waits_for_no_answer_and_takes_the_question_back(tmp_path: Path) -> None:
    run = a_live_run(tmp_path)  # whose session never answers
    with started(tmp_path, "--run-id", str(run.path)) as (address, process):
        asked = threading.Thread(target=ask, args=(Client.at(address), {"action": "pause", "run": run.run_id}))
        asked.start()
        assert until(lambda: list(run.control.glob("*")))
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=ACT_WITHIN_S / 2)
        asked.join()
        assert (process.returncode, complaints, list(run.control.glob("*"))) == (0, "", [])


def ask(client: Client, action: dict[str, str]) -> None:
    with suppress(HTTPException, OSError):
        client.post(action)


def test_enter_in_its_terminal_prints_another_address_and_each_lets_one_page_in(tmp_path: Path) -> None:
    run = a_run(tmp_path / "elsewhere")
    ours, theirs = os.openpty()
    with os.fdopen(ours, "wb") as keyboard, started(tmp_path, "--run-id", str(run.path), stdin=theirs) as opened:
        first, process = opened
        os.close(theirs)
        keyboard.write(b"\n")
        keyboard.flush()
        assert process.stdout is not None
        second = process.stdout.readline().strip()
        assert second.partition("#")[0] == first.partition("#")[0] and second != first
        for address in (first, second):
            client = Client.at(address)
            assert client.get("/api/runs").status == 200
            assert client.enter(token_of(address)).status == 403


def test_connections_that_say_nothing_stop_neither_an_open_page_nor_a_new_one(tmp_path: Path) -> None:
    run = a_run(tmp_path / "elsewhere")
    with started(tmp_path, "--run-id", str(run.path), files=128) as (address, process), ExitStack() as stack:
        client = Client.at(address)
        stream = stack.enter_context(client.stream())
        assert stream.until("run")["run_id"] == run.run_id
        for _ in range(400):
            half = stack.enter_context(create_connection(("127.0.0.1", client.guard.port), timeout=60))
            half.send(b"GET /api/runs HTTP/1.1\r\n")
        assert client.get("/api/runs").json[0]["run_id"] == run.run_id
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=60)
        assert (process.returncode, complaints) == (0, "")


BROWSER = """#!/bin/sh
cat /proc/$$/cmdline | tr '\\0' '\\n' > {seen}
cp -p "${{1#file://}}" {page}
stat -c %a "$(dirname "${{1#file://}}")" "${{1#file://}}" >> {seen}
"""


def test_the_browser_is_opened_with_nothing_secret_among_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path / "elsewhere")
    seen, page, browser = tmp_path / "seen", tmp_path / "page.html", tmp_path / "browser"
    browser.write_text(BROWSER.format(seen=seen, page=page))
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with started(tmp_path, "--open", "--run-id", str(run.path)) as (printed, process):
        assert until(lambda: seen.exists() and len(seen.read_text().splitlines()) >= 5)
        *_, file, folder_mode, file_mode = seen.read_text().splitlines()
        address = page.read_text().partition("url=")[2].partition('"')[0]
        assert (folder_mode, file_mode) == ("700", "600") and token_of(address) not in seen.read_text()
        assert Path(file.removeprefix("file://")).exists()
        assert Client.at(address).get("/api/runs").status == 200
        assert not Path(file.removeprefix("file://")).exists()
        assert Client.at(printed).get("/api/runs").status == 200  # another one
        process.send_signal(signal.SIGINT)
        process.wait(60)
        assert not list(tmp_path.glob("scalable-console-*"))


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
    monkeypatch.delitem(sys.modules, "scalable.show.console.connections", raising=False)
    monkeypatch.setitem(sys.modules, "tornado.httpserver", None)
    with pytest.raises(MissingExtraError, match=r"pip install -e .*\[console\]"):
        asyncio.run(Console(Options(port=0)).open())
