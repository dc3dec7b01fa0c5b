"""A view that follows a journal: it has all that is written, and nothing twice."""

from __future__ import annotations

from pathlib import Path

from scalable.observe.liveness import Follower, RunState
from tests.helpers.observe.builders import a_run, ended, record, task, write


def test_each_look_takes_in_what_was_written_since_the_last(tmp_path: Path) -> None:
    folder = a_run(tmp_path, task("a-1"), end=False)
    follower = Follower(folder)
    assert follower.look() and follower.view.work["demeter"].finished == 1
    assert follower.look() and follower.view.records == 2
    write(folder, [task("a-2"), ended()])
    assert follower.look() and follower.view.work["demeter"].finished == 2
    assert follower.state is RunState.OK


def test_a_long_journal_is_taken_in_by_parts(tmp_path: Path) -> None:
    follower = Follower(a_run(tmp_path, *(task(f"a-{number}") for number in range(8))))
    assert [follower.look(4) for _ in range(3)] == [False, False, True]
    assert follower.view.records == 10 and follower.view.work["demeter"].finished == 8


def test_a_journal_that_takes_the_place_of_another_is_read_from_its_beginning(tmp_path: Path) -> None:
    folder = a_run(tmp_path, *(task(f"a-{number}") for number in range(8)))
    follower = Follower(folder)
    follower.look()
    folder.journal.write_bytes(b"")
    write(folder, [record("retry", 5, run="uni", tag="demeter", cause="stuck")])
    follower.look()
    assert follower.view.records == 1 and follower.view.retries == {"stuck": 1}
