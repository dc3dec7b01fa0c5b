"""Pages that stay open: they hear what happens in a run, of a run that begins, and do not hold up each other."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalable.observe import RunFolder
from scalable.observe.folders import RunFolderError
from scalable.show.console import feed as feeds
from scalable.show.console.runs import RunFeeds, RunList
from tests.helpers.browser.serving import served
from tests.helpers.console.client import Client, Event
from tests.helpers.console.stream import often
from tests.helpers.console.sweeps import a_sweep, rows
from tests.helpers.observe.builders import (
    START,
    a_live_run,
    a_run,
    attempt,
    ended,
    record,
    sweep_started,
    write,
)
from tests.helpers.waiting import until

__all__ = ["often"]


SECTIONS = ("run", "sweeps", "grid", "workers", "series", "decisions", "cost", "trouble", "plan")


def test_a_page_gets_everything_at_first_and_then_what_changes(tmp_path: Path) -> None:
    run = a_live_run(tmp_path, *a_sweep()[1:])
    with served(tmp_path) as guard, Client(guard).stream() as stream:
        first = stream.sections(*SECTIONS)
        assert first["run"]["run_id"] == run.run_id and first["run"]["state"] == "running"
        assert first["grid"][0]["cells"] == "........" and first["grid"][0]["axes"]["asset"] == ["A", "B"]
        write(run, [attempt("A fold 0")])
        assert stream.until("cells") == {"sweep": "trial", "changed": [[n, "r"] for n in (0, 1, 4, 5)]}
        write(run, [rows("A fold 0", "0-1,4-5", failed="5"), ended(time.time() - START)])
        told = list(up_to_the_end(stream.events()))
        cells = {n: letter for event in told if event.name == "cells" for n, letter in event.data["changed"]}
        assert cells == {0: "d", 1: "d", 2: "m", 3: "m", 4: "d", 5: "f", 6: "m", 7: "m"}
        assert not [event for event in told if event.name == "grid"], "a grid whose shape is the same is told once"


def up_to_the_end(events: Iterator[Event]) -> Iterator[Event]:
    """Up to the event that says that the run is over, and the cells that are told with it."""
    over = False
    for event in events:
        yield event
        over = over or (event.name == "run" and event.data["state"] == "ok")
        if over and event.name == "cells":
            return


def test_what_the_session_says_this_moment_is_shown(tmp_path: Path) -> None:
    run = a_live_run(tmp_path)
    worker = {"worker": "w1", "tag": "demeter", "state": "busy", "rows_per_min": 3.5, "memory": 7, "runs": []}
    run.live_file.write_text(json.dumps({"t": time.time(), "paused": "over budget", "workers": [worker]}))
    with served(tmp_path) as guard, Client(guard).stream(run.run_id) as stream:
        found = stream.sections("run", "workers")
        assert found["run"]["paused"] == "over budget"
        assert found["workers"][0]["worker"] == "w1" and found["workers"][0]["rows_per_min"] == 3.5
        run.live_file.write_text("{")
        assert stream.until("workers") == []


def test_before_anything_ran_the_page_says_so_and_then_shows_the_first_run(tmp_path: Path) -> None:
    runs = tmp_path / "not there yet"
    with served(runs) as guard, Client(guard).stream() as stream:
        client = Client(guard)
        assert client.get("/").status == 200 and client.get("/api/runs").json == []
        assert stream.until("run")["state"] == "nothing has run yet"
        run = a_live_run(runs)
        events = stream.events()
        assert next(events).name == "reset"
        assert next(event.data["run_id"] for event in events if event.name == "run") == run.run_id
        assert [one["run_id"] for one in client.get("/api/runs").json] == [run.run_id]


def test_who_asked_for_the_latest_run_is_moved_to_one_that_begins_and_others_stay(tmp_path: Path) -> None:
    old = a_live_run(tmp_path)
    with served(tmp_path) as guard, Client(guard).stream() as latest, Client(guard).stream(old.run_id) as named:
        assert latest.until("run")["run_id"] == old.run_id == named.until("run")["run_id"]
        new = a_live_run(tmp_path, sweep_started())
        latest.until("reset")
        assert latest.until("run")["run_id"] == new.run_id
        write(new, [ended(time.time() - START)])
        while (told := latest.until("run"))["state"] == "running":
            assert told["run_id"] == new.run_id
        assert (told["run_id"], told["state"]) == (new.run_id, "ok"), "its end is seen although the old one still runs"
        write(old, [record("operator", ask="pause", by="me", target="", runs=[])])
        while not (told := named.until("run"))["paused"]:
            assert told["run_id"] == old.run_id


def test_a_reader_that_takes_nothing_holds_up_nobody(tmp_path: Path) -> None:
    run = a_live_run(tmp_path, *a_sweep()[1:])
    with served(tmp_path) as guard, Client(guard).stream(), Client(guard).stream() as quick:
        quick.sections(*SECTIONS)
        for number in range(300):
            text = f"{number} {'x' * 3000}"
            write(run, [record("alert", alert="large", text=text)])
            if number % 50 == 49:
                while quick.until("trouble")["alerts_past"][-1]["text"] != text:
                    pass
        assert Client(guard).get("/api/runs").status == 200


def test_a_run_is_followed_once_however_many_watch_and_not_when_nobody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "LINGERS_S", 0.0)
    made: list[feeds.Feed] = []
    gone: list[feeds.Feed] = []
    start, forget = feeds.Feed.__post_init__, RunFeeds.forget

    def counted(self: feeds.Feed) -> None:
        made.append(self)
        start(self)

    def forgotten(self: RunFeeds, feed: feeds.Feed) -> None:
        forget(self, feed)
        gone.append(feed)

    monkeypatch.setattr(feeds.Feed, "__post_init__", counted)
    monkeypatch.setattr(RunFeeds, "forget", forgotten)
    run = a_live_run(tmp_path)
    with served(tmp_path) as guard:
        client = Client(guard)
        with client.stream() as one, client.stream(run.run_id) as two, client.stream(run.run_id) as three:
            for each in (one, two, three):
                each.until("run")
            assert len(made) == 1 and not gone
        assert until(lambda: gone) == made
        with client.stream() as again:
            assert again.until("run")["run_id"] == run.run_id
        assert len(made) == 2


def test_a_run_that_cannot_be_read_is_listed_as_such_and_hides_no_other(tmp_path: Path) -> None:
    run, theirs = a_run(tmp_path), a_run(tmp_path)
    theirs.journal.unlink()
    theirs.journal.mkdir()
    with served(tmp_path) as guard, Client(guard).stream() as stream:
        assert stream.until("run")["run_id"] == run.run_id
        assert [one["state"] for one in Client(guard).get("/api/runs").json] == ["cannot be read", "ok"]
        refused = Client(guard).get(f"/api/stream?run={theirs.run_id}")
    assert refused.status == 409 and "journal.jsonl cannot be read: Is a directory" in refused.json["error"]


def test_a_latest_run_that_is_deleted_while_it_is_looked_for_ends_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = RunList.latest
    deleted: list[str] = []

    def late(self: RunList) -> str:
        latest = found(self)
        if "-gone-" in latest:
            deleted.append(latest)
            shutil.rmtree(tmp_path / latest)
        return latest

    monkeypatch.setattr(RunList, "latest", late)
    run = a_live_run(tmp_path)
    with served(tmp_path) as guard, Client(guard).stream() as stream:
        assert stream.until("run")["run_id"] == run.run_id
        RunFolder.create("gone", tmp_path).write_run({"pid": os.getpid(), "host": socket.gethostname()})
        until(lambda: deleted)
        after = a_live_run(tmp_path)
        while stream.until("run")["run_id"] != after.run_id:
            pass


def test_where_runs_cannot_be_read_a_page_is_told_so_and_nothing_is_left_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def opened(watching: RunFeeds) -> None:
        with pytest.raises(RunFolderError):
            async with watching.watched():
                raise AssertionError("there is nothing to watch")
        assert not watching.followers

    def unreadable(self: RunList) -> str:
        raise RunFolderError("runs cannot be read: Permission denied")

    monkeypatch.setattr(RunList, "latest", unreadable)
    asyncio.run(opened(RunFeeds(RunList(tmp_path))))
    with served(tmp_path) as guard:
        answer = Client(guard).get("/api/stream")
    assert answer.status == 409 and "Permission denied" in answer.json["error"]


def test_a_run_that_is_deleted_while_it_is_watched_stays_on_the_page(tmp_path: Path) -> None:
    run = a_live_run(tmp_path, *a_sweep()[1:])
    with served(tmp_path) as guard, Client(guard).stream(run.run_id) as stream:
        stream.sections(*SECTIONS)
        shutil.rmtree(run.path)
        assert stream.until("run")["run_id"] == run.run_id
        assert Client(guard).get(f"/api/stream?run={run.run_id}").status == 404


def test_a_journal_that_is_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    run = a_live_run(tmp_path, *a_sweep()[1:], attempt("A fold 0"))
    with served(tmp_path) as guard, Client(guard).stream(run.run_id) as stream:
        stream.sections(*SECTIONS)
        first = run.journal.read_text().splitlines(keepends=True)[0]
        run.journal.write_text(first)
        assert stream.until("grid") == []
