"""Questions to a session in another process: answered once, in time, and never waited for in vain."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from scalable.observe import RunFolder, mailbox
from scalable.observe.mailbox import KEPT_S, SKEW_S, Mailbox, NoAnswerError, RefusedError, ask
from tests.telemetry.builders import START, a_live_run, a_run, ended, write

PATIENCE_S = 60.0  # an upper bound against hanging, not a measure

SESSION = """
import sys, time
from pathlib import Path
from scalable.observe.mailbox import Mailbox
from tests.telemetry.builders import START, a_live_run, ended, write

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
    root = Path(__file__).parents[2]
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
    with a_session(tmp_path) as (folder, _), pytest.raises(RefusedError, match=r"^no worker is called w9$"):
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


def test_a_session_on_a_machine_that_cannot_be_asked_is_waited_for_and_then_named(tmp_path: Path) -> None:
    folder = a_run(tmp_path, end=False)
    folder.journal.unlink()
    folder.write_run({"pid": 1, "host": "n7", "t": time.time()})
    with pytest.raises(NoAnswerError, match="on n7 did not answer within 0 s, and the question was taken back"):
        ask(folder, "echo", within_s=0.3)


def test_a_run_that_is_over_is_not_asked(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    with pytest.raises(NoAnswerError, match="is over: nobody is there to ask"):
        ask(folder, "echo", within_s=PATIENCE_S)
    assert not folder.control.exists()


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
        ask(folder, "keep", within_s=1.0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into everybody's folders")
def test_root_is_told_to_ask_as_the_sessions_user_and_takes_no_folder_from_it(tmp_path: Path) -> None:
    folder = a_live_run(tmp_path)
    os.chown(folder.path, 65534, 65534)
    with pytest.raises(NoAnswerError, match=r"is another user's; ask as that user: sudo -u '#65534' scalable"):
        ask(folder, "echo", within_s=0.1)
    assert not folder.control.exists(), "the session could not read it, nor could its user write to it"


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = a_live_run(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, folder, "echo")
        modes: list[int] = []
        while not asking.done() and not modes:
            modes = [stat.S_IMODE(path.stat().st_mode) for path in folder.control.glob("*.ask.json")]
        assert modes == [0o600]
        assert stat.S_IMODE(folder.control.stat().st_mode) == 0o700
        [question] = Mailbox(folder.control).questions()
        Mailbox(folder.control).answer(question.id, {"ok": True, "svg": b"abc"})
        assert asking.result(PATIENCE_S)["svg"] == b"abc"
    Mailbox(folder.control).answer("1", {"ok": True, "svg": b"abc"})
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.control.iterdir()] == [0o600, 0o600]


def test_a_folder_that_cannot_be_written_is_named_with_the_reason(tmp_path: Path) -> None:
    folder = a_live_run(tmp_path)
    folder.control.write_text("a file in the way")
    with pytest.raises(NoAnswerError, match="control cannot be written: File exists"):
        ask(folder, "echo")


@pytest.fixture
def box(tmp_path: Path) -> Mailbox:
    folder = tmp_path / "control"
    folder.mkdir()
    return Mailbox(folder)


def asked(**changes: object) -> str:
    return json.dumps({"ask": "echo", "arguments": {}, "asked": time.time(), "within_s": 30, **changes})


def test_without_a_folder_there_are_no_questions(tmp_path: Path) -> None:
    assert list(Mailbox(tmp_path / "none").questions()) == []


def test_questions_come_in_the_order_they_were_asked(box: Mailbox) -> None:
    for name in ("2", "1", "3"):
        (box.folder / f"{name}.ask.json").write_text(asked())
    assert [question.id for question in box.questions()] == ["1", "2", "3"]
    assert list(box.questions()) == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_text("{"), "damaged"),
        (lambda path: path.write_bytes(os.urandom(100)), "damaged"),
        (lambda path: path.write_text("[" * 100_000), "damaged"),
        (lambda path: path.write_text("[1]"), "damaged"),
        (lambda path: path.write_text(asked(ask=7)), "damaged"),
        (lambda path: path.write_text(asked(asked="now")), "damaged"),
        (lambda path: path.write_text(asked(arguments={"x": "y" * 70_000})), "damaged"),
        (lambda path: path.symlink_to("/etc/passwd"), "cannot be read"),
        (os.mkfifo, "damaged"),
        (lambda path: path.write_text(asked(asked=time.time() - 31 - SKEW_S)), "too late and nothing was done"),
    ],
)
def test_what_is_no_question_is_answered_with_the_reason(
    box: Mailbox, make: Callable[[Path], object], words: str
) -> None:
    make(box.folder / "1.ask.json")
    (box.folder / "2.ask.json").write_text(asked())
    assert [question.id for question in box.questions()] == ["2"]
    [answer] = box.folder.iterdir()
    told = json.loads(answer.read_text())
    assert (answer.name, told["ok"]) == ("1.answer.json", False)
    assert words in told["error"]


def test_a_folder_with_the_name_of_a_question_is_left_alone(box: Mailbox) -> None:
    (box.folder / "1.ask.json").mkdir()
    for _ in range(3):
        assert list(box.questions()) == []
    assert [path.name for path in box.folder.iterdir()] == ["1.ask.json"]


def test_answers_that_nobody_fetched_are_removed_after_a_while(box: Mailbox) -> None:
    box.answer("old", {"ok": True, "svg": b"x"})
    box.answer("new", {"ok": True})
    for path in box.folder.glob("old*"):
        os.utime(path, (time.time() - KEPT_S - 1,) * 2)
    box.tidy_at = 0.0
    assert list(box.questions()) == []
    assert [path.name for path in box.folder.iterdir()] == ["new.answer.json"]


def test_an_answer_that_a_full_disk_does_not_take_is_told_as_such(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = mailbox.write

    def full(path: Path, data: bytes) -> None:
        if len(data) > 1000:
            raise OSError(28, "No space left on device")
        real(path, data)

    monkeypatch.setattr(mailbox, "write", full)
    box.answer("1", {"ok": True, "note": b"small", "svg": b"x" * 2000})
    [answer] = box.folder.iterdir()
    assert "No space left on device" in json.loads(answer.read_text())["error"]


def test_whoever_still_asks_when_the_session_closes_is_told(box: Mailbox) -> None:
    (box.folder / "1.ask.json").write_text(asked())
    box.close()
    [answer] = box.folder.iterdir()
    assert "closing; nothing was done" in json.loads(answer.read_text())["error"]


def test_an_answer_is_found_although_the_run_ended_just_after_it(tmp_path: Path) -> None:
    folder = a_live_run(tmp_path)

    def session() -> None:
        box, found = Mailbox(folder.control), list[mailbox.Question]()
        deadline = time.monotonic() + PATIENCE_S
        while not found and time.monotonic() < deadline:
            found = list(box.questions())
        write(folder, [ended(time.time() - START)])
        box.answer(found[0].id, {"ok": True, "last": "words"})

    thread = threading.Thread(target=session)
    thread.start()
    assert ask(folder, "echo")["last"] == "words"
    thread.join(PATIENCE_S)
