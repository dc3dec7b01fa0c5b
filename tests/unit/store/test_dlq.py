"""``admin dlq`` lists what a database refused, tries it again, and drops it only when that was said clearly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalable.cli.main import main
from scalable.store import open_store
from scalable.testing.store import a_row, key
from tests.helpers.store.dead_letters import BAD_FOLD, allow, refuse


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with two dead letters."""
    url = f"sqlite:///{tmp_path}/results.db"
    monkeypatch.setenv("SCALABLE_STORE_URL", url)
    monkeypatch.chdir(tmp_path)
    with open_store(url) as store:
        refuse(url)
        store.put(
            [
                a_row("one", axes={"fold": BAD_FOLD}),
                a_row("two", axes={"fold": BAD_FOLD, "asset": "UNIUSDC"}),
                a_row("good"),
            ]
        )
    return url


def ids(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["admin", "dlq", "list", "--format", "json"]) == 0
    return [letter["id"] for letter in json.loads(capsys.readouterr().out)["dead_letters"]]


def test_dead_letters_are_listed_with_what_they_are_and_why(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admin", "dlq"]) == 0
    said = capsys.readouterr().out
    assert "calibration isotonic UNIUSDC 13 10.0" in said
    assert " ".join(said.split()).count("refuses it: a constraint or trigger") == 1, "one reason, however many have it"
    assert "scalable admin dlq replay --all" in said


def test_letters_are_stored_once_the_cause_is_gone(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admin", "dlq", "replay", "--all"]) == 1
    assert "2 dead letters refused again" in capsys.readouterr().out
    allow(url)
    first, second = ids(capsys)
    assert main(["admin", "dlq", "replay", first[:6], first]) == 0
    assert "1 dead letter stored" in capsys.readouterr().out
    assert ids(capsys) == [second]
    assert main(["admin", "dlq", "replay", "--all", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"replayed": 1, "left": [], "reason": ""}
    with open_store(url) as store:
        assert store.keys() == {key("one"), key("two"), key("good")}
    assert main(["admin", "dlq"]) == 0
    assert "no dead letters: the database took everything" in capsys.readouterr().out


def test_a_script_that_drops_must_say_so(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admin", "dlq", "drop", "--all"]) == 2
    assert "what is dropped is lost; write --yes" in capsys.readouterr().err
    first, second = ids(capsys)
    assert main(["admin", "dlq", "drop", first, "--yes"]) == 0
    assert "dropped 1 dead letter" in capsys.readouterr().out
    assert ids(capsys) == [second]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay"], "which ones? write  scalable admin dlq replay ID  or --all"),
        (["replay", "zzzz"], "dead letter 'zzzz' is not defined; known: "),
        (["drop", "abcd", "--all", "--yes"], "--all means every dead letter"),
        (["list", "abcd"], "list shows all of them"),
    ],
)
def test_a_wrong_use_is_answered_with_the_right_one(
    url: str, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["admin", "dlq", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert len(ids(capsys)) == 2
