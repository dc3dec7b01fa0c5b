"""The file of letters that a database does not take even as letters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scalable.store.dead_letters import LetterFile
from scalable.store.interface import DeadLetter

ONE = DeadLetter("1", 10.0, "refused", 3, "row", "{}")
OTHER = DeadLetter("2", 20.0, "refused: é", 1, "line", "")


def test_letters_are_kept_with_their_tries_until_they_are_dropped(tmp_path: Path) -> None:
    file = LetterFile(tmp_path / "beside" / "results.db-dead-letters.jsonl")
    assert list(file.read()) == []

    file.change(add=[ONE, OTHER])
    assert list(file.read()) == [ONE, OTHER]

    file.change(add=[replace(ONE, reason="refused again", tries=2)], drop=["2"])
    assert list(LetterFile(file.path).read()) == [replace(ONE, reason="refused again", tries=5)]
    assert [path.name for path in file.path.parent.iterdir()] == [file.path.name]

    file.change(drop=["1"])
    assert list(file.read()) == []
    assert list(file.path.parent.iterdir()) == []


def test_a_torn_line_costs_no_other_letter(tmp_path: Path) -> None:
    file = LetterFile(tmp_path / "letters.jsonl")
    file.change(add=[ONE, OTHER])
    first, second = file.path.read_text().splitlines()
    file.path.write_text(f'{first[:-9]}\n{{"id": "3"}}\n{second}\n')
    assert list(file.read()) == [OTHER]
