"""``scalable forecast replay``: what it says of a run, and of one that it cannot replay."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile

import pytest

from scalable.observe import RunFolder
from tests.helpers.cli.commands import Call, call
from tests.helpers.observe.builders import a_live_run, a_run
from tests.helpers.session.recorded import RECORDED

__all__ = ["call"]


@pytest.fixture
def climbed(tmp_path: Path) -> RunFolder:
    """A run in which a job went to a larger worker."""
    folder = a_run(tmp_path / ".scalable/runs")
    copyfile(RECORDED / "climb.jsonl", folder.events)
    return folder


def tamper(folder: RunFolder, before: str, after: str) -> None:
    text = folder.events.read_text(encoding="utf-8")
    assert before in text
    folder.events.write_text(text.replace(before, after), encoding="utf-8")


def test_a_run_that_is_decided_the_same_again(call: Call, climbed: RunFolder) -> None:
    answer = call("forecast", "replay", climbed.run_id)
    assert answer.status == 0
    assert answer.out.startswith(f"same decisions    {climbed.run_id}: ")
    assert "+0.0 %" in answer.out
    record = call("forecast", "replay", climbed.run_id, "--format", "json").json
    assert (record["run"], record["same"], record["difference"]) == (climbed.run_id, True, None)
    assert record["simulated"]["off"] == pytest.approx(0, abs=0.05)


def test_the_latest_run_is_meant_if_none_is_named_and_a_folder_may_be(call: Call, climbed: RunFolder) -> None:
    assert call("forecast", "replay").out == call("forecast", "replay", str(climbed.path)).out


def test_the_first_decision_that_differs_is_shown(call: Call, climbed: RunFolder) -> None:
    tamper(climbed, '"worker":"large-2"}}', '"worker":"large-7"}}')
    answer = call("forecast", "replay")
    assert answer.status == 1
    assert answer.out.startswith("other decisions")
    assert "then   start-job, job grow, attempt 2, worker large-7" in answer.out
    assert "now    start-job, job grow, attempt 2, worker large-2" in answer.out
    record = call("forecast", "replay", "--format", "json").json
    assert record["difference"]["then"] == [{"start-job": {"job": "grow", "attempt": 2, "worker": "large-7"}}]


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("no such run", "is not recorded"),
        ("still running", "still runs"),
        ("without events", "was recorded without its events"),
        ("damaged", "1 line of its events cannot be read"),
        ("a gap", "has a gap after event"),
    ],
)
def test_what_cannot_be_replayed_says_why(
    call: Call, climbed: RunFolder, tmp_path: Path, broken: str, says: str
) -> None:
    run = climbed.run_id
    match broken:
        case "no such run":
            run = "run-20260101T000000Z-lab-00000000"
        case "still running":
            run = a_live_run(tmp_path / ".scalable/runs").run_id
        case "without events":
            climbed.events.unlink()
        case "damaged":
            tamper(climbed, '{"t":12.511,"kind":"row-persisted","worker":"demeter-1"}', "garbage")
        case "a gap":
            tamper(climbed, '"kind":"row-persisted"', '"kind":"alert"')
    answer = call("forecast", "replay", run)
    assert answer.status in (1, 2)
    assert says in answer.err


def test_options_of_other_forecasts_are_refused(call: Call, climbed: RunFolder) -> None:
    for option in ("--target", "--overlay", "--sweep", "--seed"):
        answer = call("forecast", "replay", option, "1")
        assert (answer.status, option in answer.err) == (2, True)
