"""Questions to a session in another process: answered once, in time, and never waited for in vain."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scalable.observe import mailbox
from scalable.observe.mailbox import KEPT_S, SKEW_S, Mailbox, NoAnswerError, ask
from tests.helpers.observe.builders import START, a_live_run, a_run, ended, write
from tests.helpers.observe.mailbox import PATIENCE_S


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
