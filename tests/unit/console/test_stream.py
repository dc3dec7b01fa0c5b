"""Pages that stay open: they hear what happens in a run, of a run that begins, and do not hold up each other."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from scalable.observe import RunFolder
from scalable.observe.liveness import RunState, state_in
from scalable.show.console import feed as feeds
from scalable.show.console.runs import RunList
from tests.helpers.console.stream import often
from tests.helpers.observe.builders import (
    GIB,
    START,
    a_live_run,
    a_plan,
    a_run,
    ended,
    record,
    run_started,
    sweep_started,
    write,
)

__all__ = ["often"]


def test_runs_are_listed_the_latest_first_with_how_they_ended(tmp_path: Path) -> None:
    done = a_run(tmp_path, sweep_started("calibration"))
    killed = a_run(tmp_path, pid=2**22, end=False)
    reported = a_run(tmp_path)
    told = {"project": "other", "target": "aws", "state": "failed", "started": 5.0}
    reported.write_report({"run": told, "sweeps": {"depth": {}}})
    empty = RunFolder.create("lab", tmp_path)
    live = a_live_run(tmp_path)
    board = RunList(tmp_path)
    found = board.runs()
    assert [one["run_id"] for one in found] == [each.run_id for each in (live, empty, reported, killed, done)]
    assert [one["state"] for one in found] == [
        "running", "nothing was recorded", "failed", "interrupted (the process is gone)", "ok",
    ]  # fmt: skip
    assert found[2] == {"run_id": reported.run_id, **told, "sweeps": ["depth"]}
    assert found[4]["sweeps"] == ["calibration"] and found[4]["started"] == START
    assert board.latest() == live.run_id
    write(live, [ended(time.time() - START)])
    assert board.runs()[0]["state"] == "ok" and board.latest() == live.run_id


def test_a_run_that_ends_while_it_is_looked_at_is_not_taken_for_one_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path, pid=2**22, end=False)

    def late(*told: Any) -> RunState:
        if "ended" not in run.journal.read_text():
            write(run, [ended()])
        return state_in(*told)

    monkeypatch.setattr("scalable.show.console.runs.state_in", late)
    found = RunList(tmp_path)
    assert [one["state"] for one in (*found.runs(), *found.runs())] == ["ok", "ok"]


def test_a_run_that_has_written_nothing_yet_is_looked_at_again(tmp_path: Path) -> None:
    board, run = RunList(tmp_path), RunFolder.create("lab", tmp_path)
    assert board.runs()[0]["state"] == "nothing was recorded"
    a_run(tmp_path)
    write(run, [run_started(run.run_id, at=time.time() - START)])
    assert board.runs()[1]["state"] == "running" and board.latest() == run.run_id


def test_a_run_that_was_killed_on_another_machine_does_not_hide_later_ones(tmp_path: Path) -> None:
    killed = a_live_run(tmp_path)
    for path in (killed.run_file, killed.journal):
        path.write_text(path.read_text().replace(socket.gethostname(), "another-machine"))
    later, board = a_run(tmp_path), RunList(tmp_path)
    assert board.latest() == killed.run_id, "as far as can be known, it runs"
    for path in (killed.run_file, killed.journal):
        os.utime(path, (0, time.time() - 600))
    assert board.latest() == later.run_id


def test_who_comes_just_before_a_run_is_given_up_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "LINGERS_S", 0.0)
    monkeypatch.setattr(feeds, "EVERY_S", 60.0)
    run = a_live_run(tmp_path)

    async def come_late() -> str:
        feed, late = feeds.Feed(run), feeds.PageWatcher()
        following = asyncio.create_task(feed.follow(lambda feed: late.close()))
        while not feed.sections:
            await asyncio.sleep(0.01)
        feed.watch(late)
        await late.next(1.0)
        write(run, [record("alert", alert="late", text="for who came late")])
        feed.woken.set()
        told = await late.next(30.0)
        following.cancel()
        return told

    assert "for who came late" in asyncio.run(come_late())


def test_what_workers_use_now_is_no_part_of_what_was_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "AT_ONCE", 2)
    run = a_live_run(tmp_path, *(record("gauge", at, workers={}, tasks={}) for at in range(5)))
    worker = {"worker": "w1", "tag": "demeter", "memory": GIB, "memory_limit": 2 * GIB}
    run.live_file.write_text(json.dumps({"t": time.time(), "workers": [worker]}))
    news = first_news(feeds.Feed(run))
    assert set(json.loads(news.sections["series"])["memory_share"]) == {None}
    assert json.loads(news.sections["workers"])[0]["worker"] == "w1"


def test_a_long_journal_is_told_of_once_it_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "AT_ONCE", 5)
    run = a_run(
        tmp_path,
        a_plan(workers_by_tag={"demeter": 1}),
        record("tariff", 0.2, currency="USD", basis="nodes", assumed=[]),
        record("machine", 2, machine="node", pool="spot", price="3600", since=START + 2),
        *(record("gauge", at, workers={}, tasks={}) for at in range(10, 20)),
        pid=2**22,
    )
    news = first_news(feeds.Feed(run))
    assert json.loads(news.sections["run"])["state"] == "ok", "although its process is gone"
    assert json.loads(news.sections["plan"])["cost"]["actual"] == {"amount": 98.0, "currency": "USD"}


def first_news(feed: feeds.Feed) -> feeds.News:
    looks = 1
    while (news := feed.look()) is None:
        looks += 1
    assert looks > 1, "it is read in several portions"
    return news
