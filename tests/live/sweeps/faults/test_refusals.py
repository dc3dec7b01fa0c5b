"""Places that cannot be written, wrong passwords, old tables, full disks: told with the remedy, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from scalable.observe import read
from scalable.store import Row, SweepStatus, open_store
from scalable.store.outbox import Entry
from scalable.store.versions import VERSION
from tests.helpers.store.earlier import TO_VERSION_4
from tests.helpers.sweeps.faults.fixtures import Make
from tests.helpers.sweeps.faults.miniature import Miniature, metrics, undisturbed, wait_for
from tests.tools.postgres import PrivatePostgres


def refused(mini: Miniature, *words: str) -> str:
    """It ends with status 1 and these words, started nobody, and computed nothing."""
    status, said = mini.here()
    assert status == 1, said
    for each in words:
        assert each in said
    assert "Traceback" not in said
    assert mini.executed() == [] and mini.run_folders() == []
    return said


def completes(mini: Miniature) -> None:
    status, said = mini.here()
    assert status == 0, said
    assert metrics(mini.rows()) == undisturbed(mini.compiled())
    assert mini.unfinished() == []


@contextmanager
def disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, which is soon full."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody can write there, not even root."""
    if os.geteuid() != 0:
        mode = folder.stat().st_mode
        folder.chmod(0o500)
        try:
            yield
        finally:
            folder.chmod(mode)
        return
    subprocess.run(["mount", "--bind", "-o", "ro", str(folder), str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_wrong_password_is_told_and_not_shown(make: Make, postgres: PrivatePostgres) -> None:
    names = {name for (name,) in postgres.execute("SELECT rolname FROM pg_roles")}
    if "locked" not in names:
        postgres.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
    mini = make(store=postgres.url(user="locked", password="quite-wrong"))
    said = refused(mini, "refuses the password; write the right one, or leave it to PGPASSWORD", "//locked@127.0.0.1")
    assert "quite-wrong" not in said


def test_a_store_in_a_folder_that_may_not_be_written_is_told(make: Make) -> None:
    mini = make(store="sqlite:///closed/results.db")
    closed = mini.folder / "closed"
    closed.mkdir()
    with read_only(closed):
        refused(mini, "store sqlite:///closed/results.db", "or name another file")
    completes(mini)


def test_artefacts_in_a_folder_that_may_not_be_written_are_told(make: Make) -> None:
    mini = make(sections={"artefacts": "closed"})
    closed = mini.folder / "closed"
    closed.mkdir()
    with read_only(closed):
        refused(mini, f"{closed}: what is in use could not be registered", "name another place with artefacts:")
    completes(mini)


def test_tables_of_a_later_version_are_told_and_left_alone(make: Make) -> None:
    mini = make()
    url = mini.store_url
    open_store(url).close()
    change(url, "UPDATE scalable_schema SET version = 99")
    refused(mini, "has tables of version 99", "update scalable, or name another place")
    change(url, f"UPDATE scalable_schema SET version = {VERSION}")
    completes(mini)


def test_tables_of_an_older_version_are_brought_up_to_date(make: Make) -> None:
    mini = make()
    completes(mini)
    before = mini.rows()
    for table in ("ftf_config", "ftf_config_history", "incidents", "dead_letters", "leases", "counters"):
        change(mini.store_url, f"DROP TABLE IF EXISTS {table}")
    for statement in TO_VERSION_4:
        change(mini.store_url, statement)
    change(mini.store_url, "DROP TABLE scalable_attempts")
    change(mini.store_url, "ALTER TABLE finetune_results DROP COLUMN run_id")
    change(mini.store_url, "DELETE FROM scalable_schema")
    change(mini.store_url, "INSERT INTO scalable_schema VALUES (2)")
    executed = mini.executed()
    completes(mini)
    rows = {key: replace(row, run_id=None) for key, row in before.items()}
    assert mini.rows() == rows and mini.executed() == executed


def test_rows_that_the_database_refuses_for_good_are_told_and_follow_without_being_computed_again(make: Make) -> None:
    mini = make(nap_s=0.0)
    open_store(mini.store_url).close()
    change(
        mini.store_url,
        "CREATE TRIGGER closed BEFORE INSERT ON scalable_rows WHEN json_extract(NEW.axes, '$.asset') = 'BB' "
        "BEGIN SELECT RAISE(ABORT, 'not these'); END",
    )
    status, said = mini.here()
    assert status == 1
    assert '"finished": 16' in said and '"aside": "store' in said and "a constraint or trigger" in said
    (folder,) = mini.run_folders()
    told = [one for one in read(folder.journal) if one["kind"] == "rows"]
    assert sum(one["count"] for one in told) == 16, "a dead letter is not stored"
    change(mini.store_url, "DROP TRIGGER closed")
    executed = mini.executed()
    assert mini.here(["dlq", "replay", "--all"])[0] == 0
    completes(mini)
    assert mini.executed() == executed


def change(url: str, statement: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_a_full_disk_of_artefacts_ends_the_sweep_with_the_place_and_the_remedy_and_marks_no_row(
    make: Make, tmp_path: Path
) -> None:
    with disk(tmp_path / "small", "2m") as small:
        mini = make(sections={"artefacts": str(small)}, size=200_000)
        stopper = small / "stopper"
        stopper.write_bytes(bytes(1_800_000))
        status, said = mini.here()
        assert status == 1
        assert f"{small}: the result of stage table could not be kept: No space left on device" in said
        assert "free some space (scalable admin cache gc --older-than 7d)" in said
        assert len(mini.executed()) < 12, "every other unit would be computed in vain, too"
        assert mini.rows() == {}
        with open_store(mini.store_url) as store:
            assert [run.status for run in store.runs()] == [SweepStatus.FAILED]
        stopper.unlink()
        completes(mini)


def fill(stopper: Path) -> None:
    with stopper.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_full_disk_of_the_store_loses_nothing_that_was_acknowledged(make: Make, tmp_path: Path) -> None:
    with disk(tmp_path / "small", "4m") as small:
        mini = make(store=f"sqlite:///{small / 'results.db'}")
        started = mini.start()
        wait_for(lambda: len(mini.executed()) > 6 and mini.committed(), "a row", started)
        stopper = small / "stopper"
        fill(stopper)
        elsewhere = mini.folder / "cache" / "outbox"
        wait_for(lambda: any('"row":' in each.read_text() for each in elsewhere.glob("*")), "rows elsewhere", started)
        started.process.kill()
        assert started.wait() == -signal.SIGKILL and mini.gone()
        stopper.unlink()
        entries = [Entry.from_line(line) for each in elsewhere.glob("*") for line in each.read_bytes().splitlines(True)]
        axes = [dict[str, Any](entry.record.axes) for entry in entries if isinstance(entry.record, Row)]
        kept = {f"row-{each['asset']}-{each['depth']}-{each['fold']}-{each['cost_bps']:g}" for each in axes}
        before = len(mini.executed())
        completes(mini)
        assert kept and not kept & set(mini.executed()[before:]), "what is kept elsewhere is found there"
        assert list(elsewhere.glob("*")) == []


def test_rows_that_found_no_room_at_first_are_stored_and_told_when_there_is_some(make: Make, tmp_path: Path) -> None:
    with disk(tmp_path / "small", "4m") as small:
        mini = make(store=f"sqlite:///{small / 'results.db'}", nap_s=0.5)
        started = mini.start()
        wait_for(lambda: mini.executed() and mini.committed(), "a row", started)
        stopper = small / "stopper"
        fill(stopper)
        (run,) = mini.run_folders()
        wait_for(lambda: "full" in str(run.live().get("dependencies")), "rows that are refused", started)
        stopper.unlink()
        assert started.wait() == 0, started.said()
        told = [record for record in read(run.journal) if record["kind"] == "rows"]
        assert sum(record["count"] for record in told) == len(mini.rows()) == 24
