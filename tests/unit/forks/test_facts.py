"""Why forks with threads are refused: each danger as it is, and that the guard and the right way avoid it."""

from __future__ import annotations

from tests.helpers.forks.facts import scene


def test_the_locks_of_logging_are_renewed_in_a_child() -> None:
    assert scene("locks").get("logging lock") == "ended", scene("locks")


def test_with_the_guard_such_a_fork_is_denied_at_once_and_a_new_program_works() -> None:
    found = scene("locks")
    assert found["guard"].startswith("denied after 0."), found
    assert found["spawn"] == 3
