"""Questions to a session in another process: answered once, in time, and never waited for in vain."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from scalable.observe import RunFolder
from scalable.observe.mailbox import NoAnswerError, SessionRefusedError, ask
from tests.helpers.observe.mailbox import PATIENCE_S
from tests.helpers.paths import ROOT

SESSION = """
import sys, time
from pathlib import Path
from scalable.observe.mailbox import Mailbox
from tests.helpers.observe.builders import START, a_live_run, ended, write

folder = a_live_run(Path(sys.argv[1]))
print(folder.run_id, flush=True)
box, count, lost = Mailbox(folder.control), 0, []
while True:
    for question in box.questions():
        count += 1
        match question.ask:
            case "echo":
                box.answer(question.id, {"ok": True, "count": count, **question.arguments})
            case "large":
                box.answer(question.id, {"ok": True, "text": "x" * 3_000_000, "svg": bytes(range(256)) * 20_000})
            case "refuse":
                box.answer(question.id, {"ok": False, "error": "no worker is called w9"})
            case "secret":
                box.answer(question.id, {"ok": True, "password": "hunter2", "text": "token=abcdefgh123456"})
            case "keep":
                lost.append(question)
            case "end":
                write(folder, [ended(time.time() - START)])
                sys.exit()
    time.sleep(0.02)
"""


@contextmanager
def a_session(base: Path) -> Iterator[tuple[RunFolder, subprocess.Popen[str]]]:
    """A process that answers as a session does."""
    root = ROOT
    process = subprocess.Popen([sys.executable, "-c", SESSION, str(base)], stdout=subprocess.PIPE, text=True, cwd=root)
    try:
        assert process.stdout is not None
        yield RunFolder.open(process.stdout.readline().strip(), base), process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def left(folder: RunFolder) -> list[str]:
    return sorted(path.name for path in folder.control.iterdir())


def test_a_session_in_another_process_answers_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with a_session(tmp_path) as (folder, _):
        assert ask(folder, "echo", run="first", question="?", names=["ä", "b"])["names"] == ["ä", "b"]
        assert ask(folder, "echo")["count"] == 2
        assert left(folder) == []


def test_an_answer_may_be_long_and_may_hold_bytes(tmp_path: Path) -> None:
    with a_session(tmp_path) as (folder, _):
        answer = ask(folder, "large")
        assert len(answer["text"]) == 3_000_000
        assert answer["svg"] == bytes(range(256)) * 20_000
        assert left(folder) == []


def test_a_refusal_is_raised_with_the_sessions_own_sentence(tmp_path: Path) -> None:
    with a_session(tmp_path) as (folder, _), pytest.raises(SessionRefusedError, match=r"^no worker is called w9$"):
        ask(folder, "refuse")


def test_no_secret_comes_with_an_answer(tmp_path: Path) -> None:
    with a_session(tmp_path) as (folder, _):
        told = str(ask(folder, "secret"))
        assert "hunter2" not in told and "abcdefgh123456" not in told


def test_twenty_who_ask_at_once_get_each_their_own_answer_once(tmp_path: Path) -> None:
    with a_session(tmp_path) as (folder, _), ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda number: ask(folder, "echo", number=number), range(20)))
        assert [answer["number"] for answer in answers] == list(range(20))
        assert sorted(answer["count"] for answer in answers) == list(range(1, 21))
        assert left(folder) == []


def test_askers_in_several_processes_do_not_meet(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from scalable.observe import RunFolder; "
        "from scalable.observe.mailbox import ask; folder = RunFolder(Path(sys.argv[1])); "
        "print([ask(folder, 'echo', n=n)['n'] for n in range(10)])"
    )
    with a_session(tmp_path) as (folder, _):
        command = [sys.executable, "-c", code, str(folder.path)]
        askers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        try:
            told = [asker.communicate(timeout=PATIENCE_S)[0].strip() for asker in askers]
        finally:
            for asker in askers:
                asker.kill()
                asker.wait()
        assert told == [str(list(range(10)))] * 4
        assert ask(folder, "echo")["count"] == 41


def test_a_killed_session_is_noticed_at_once(tmp_path: Path) -> None:
    with a_session(tmp_path) as (folder, process):
        process.kill()
        process.wait()
        with pytest.raises(NoAnswerError, match="is over"):
            ask(folder, "echo", within_s=PATIENCE_S)


def test_a_session_that_is_killed_while_it_is_asked_is_not_waited_for(tmp_path: Path) -> None:
    with a_session(tmp_path) as (folder, process):
        began = time.monotonic()
        timer = threading.Timer(0.3, process.kill)
        timer.start()
        waiter = threading.Thread(target=process.wait)  # a zombie is gone too, but this is how it ends in life
        waiter.start()
        with pytest.raises(NoAnswerError, match="ended before it answered"):
            ask(folder, "keep", within_s=PATIENCE_S)
        assert time.monotonic() - began < PATIENCE_S / 2
        waiter.join(PATIENCE_S)
        assert left(folder) == []


def test_a_session_that_ends_while_it_is_asked_is_not_waited_for(tmp_path: Path) -> None:
    with a_session(tmp_path) as (folder, _), pytest.raises(NoAnswerError, match="ended before it answered"):
        ask(folder, "end", within_s=PATIENCE_S)


def test_a_question_to_a_stopped_session_is_taken_back_and_never_acted_on(tmp_path: Path) -> None:
    with a_session(tmp_path) as (folder, process):
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(NoAnswerError, match=rf"taken back: its process {process.pid} is stopped .* kill -CONT"):
            ask(folder, "echo", within_s=PATIENCE_S)
        assert time.monotonic() - began < PATIENCE_S / 2
        assert left(folder) == []
        process.send_signal(signal.SIGCONT)
        assert ask(folder, "echo")["count"] == 1


def test_a_question_that_was_taken_and_not_answered_may_still_be_acted_on_and_this_is_said(tmp_path: Path) -> None:
    with a_session(tmp_path) as (folder, _), pytest.raises(NoAnswerError, match="it may still do what was asked"):
        ask(folder, "keep", within_s=5.0)  # long enough for a busy session to take it
