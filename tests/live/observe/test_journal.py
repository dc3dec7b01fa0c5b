"""The journal under good and bad luck: threads, kills, forks, full disks, and things that are no JSON."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from scalable.observe import Journal, read
from tests.helpers.observe.journal import written
from tests.helpers.waiting import LONG_S, until


def test_a_writer_that_is_killed_loses_nothing_it_had_flushed(tmp_path: Path) -> None:
    code = f"""
import sys
from scalable.observe import Journal
journal = Journal({str(tmp_path / "j")!r})
for place in range(1000):
    journal.write("task", place=place)
journal.flush()
print("flushed", flush=True)
while True:
    journal.write("task", place=place, text="x" * 100)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "flushed\n"
    flushed = (tmp_path / "j").stat().st_size
    assert until(lambda: (tmp_path / "j").stat().st_size > 2 * flushed)
    process.send_signal(signal.SIGKILL)
    process.wait(LONG_S)
    process.stdout.close()
    records = read(tmp_path / "j")
    places = [record["place"] for record in records]
    assert places[:1000] == list(range(1000))
    assert set(places[1000:]) <= {999}
    assert records.damaged == 0


def test_a_journal_is_complete_when_the_program_ends_without_closing_it(tmp_path: Path) -> None:
    code = f"""
from scalable.observe import Journal
journal = Journal({str(tmp_path / "j")!r})
for place in range(100):
    journal.write("task", place=place)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LONG_S)
    assert len(written(tmp_path / "j")) == 100


def test_a_forked_child_neither_writes_nor_hangs(tmp_path: Path) -> None:
    code = f"""
import os
from scalable.observe import Journal
journal = Journal({str(tmp_path / "j")!r})
journal.write("task", place=1)
child = os.fork()
journal.write("task", place=2)
journal.flush()
journal.close()
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    assert not any(b'"place":2' in line for line in journal._waiting)
"""
    quiet = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    subprocess.run(quiet, check=True, timeout=LONG_S)
    assert [record["place"] for record in written(tmp_path / "j")] == [1, 2]


def test_a_disk_that_takes_again_gets_every_record_and_the_count_of_those_dropped(tmp_path: Path) -> None:
    """A file size limit stands for the full disk: it also cuts a record in the middle."""
    code = f"""
import logging, resource, signal
logging.disable()
from scalable.observe import Journal, journal as module
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
module.MOST_WAITING = 500
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
journal = Journal({str(tmp_path / "j")!r})
for place in range(20):
    journal.write("task", place=place, text="x" * 90)
assert not journal.flush()
for place in range(20, 3000):
    journal.write("task", place=place, text="x" * 90)
assert journal.lost > 0, journal.lost
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert journal.flush()
journal.write("task", place=3000)
journal.close()
print(journal.lost)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=LONG_S)
    lost = int(done.stdout)
    records = read(tmp_path / "j")
    tasks = [record for record in records if record["kind"] == "task"]
    gaps = [record for record in read(tmp_path / "j") if record["kind"] == "alert"]
    assert records.damaged == 0
    assert len(tasks) + lost == 3001
    assert [task["place"] for task in tasks][:20] == list(range(20))
    assert gaps[0]["alert"] == "journal-gap"
    assert gaps[0]["text"] == f"{lost} records could not be written: File too large"


def test_the_file_is_not_inherited_by_programs_that_are_started(tmp_path: Path) -> None:
    with Journal(tmp_path / "j"):
        listed = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=True)
        assert str(tmp_path / "j") not in listed.stdout
