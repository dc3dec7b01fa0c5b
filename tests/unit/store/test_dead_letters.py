"""Dead letters of a store in a file."""

from __future__ import annotations

from pathlib import Path

from scalable.store import open_store
from scalable.store.outbox import Entry, Outbox
from scalable.testing.store import a_row
from tests.helpers.store.dead_letters import DeadLetterContract


class TestSqlite(DeadLetterContract):
    """The file that ``url`` names."""


def test_a_line_of_a_newer_version_stays_a_letter_until_it_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    open_store(f"sqlite:///{path}").close()
    left = Outbox.new(path)
    left.append([Entry.of(a_row(), 1.0)])
    left.close()
    line = left.path.read_bytes()
    left.path.write_bytes(line.replace(b'"sum":"', b'"sum":"f', 1)[:-2] + b"\xff\0\n")
    with open_store(f"sqlite:///{path}") as store:
        [letter] = store.dead_letters()
        assert letter.content.endswith("\\xff\\x00")
        outcome = store.replay_dead_letters()
        assert (outcome.replayed, outcome.left[0].reason) == (0, "the checksum does not match")
