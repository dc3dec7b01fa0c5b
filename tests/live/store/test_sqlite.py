"""Opening a store in a file from several processes, and without the right to."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalable.store import Fate, open_store
from scalable.testing.store import a_row, key
from scalable.testing.store_ledger import a_decision
from tests.helpers.store.children import put_some, read_without_rights, use_without_rights
from tests.helpers.store.trouble import Child


def test_a_store_is_not_used_across_a_fork(tmp_path: Path) -> None:
    code = f"""
import os
from scalable.store import StoreError, open_store
with open_store("sqlite:///{tmp_path}/results.db") as store:
    if os.fork() == 0:
        try:
            store.put([])
        except StoreError as error:
            print(error, flush=True)
        store.close()
        os._exit(0)
    os.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "the store was opened in another process; open it in this one\n"


def test_importing_the_package_does_not_import_the_database_library() -> None:
    code = "import scalable.store, sys; print(sorted({'sqlalchemy', 'sqlite3', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others may enter."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


def test_a_folder_without_the_right_to_write_is_refused_in_words(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    [said] = Child(use_without_rights, f"sqlite:///{open_folder}/results.db").last_words()
    assert "cannot be opened; allow reading and writing of the file and its folder" in said


def test_a_read_only_store_takes_no_rows_and_says_why(open_folder: Path) -> None:
    path = open_folder / "results.db"
    open_store(f"sqlite:///{path}").close()
    path.chmod(0o444)
    open_folder.chmod(0o555)
    [answer] = Child(use_without_rights, f"sqlite:///{path}").last_words()
    said = answer if isinstance(answer, str) else answer.reason
    assert "is read-only; allow writing" in said or "cannot be opened; allow reading and writing" in said


def test_a_read_only_store_can_be_read_and_its_ledger_says_why_it_takes_nothing(open_folder: Path) -> None:
    path = open_folder / "results.db"
    with open_store(f"sqlite:///{path}") as store:
        store.put([a_row()])
        store.record_decision(a_decision())
    open_folder.chmod(0o555)
    there, said = Child(read_without_rights, f"sqlite:///{path}").last_words()
    assert there == ({key("row")}, 1)
    assert "is read-only; allow writing" in said
    assert [each.name for each in open_folder.iterdir()] == ["results.db"]


def test_processes_that_open_a_new_store_at_once_all_write_their_rows(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/results.db"
    children = [Child(put_some, url, name, 20) for name in range(6)]
    assert [child.last_words() for child in children] == [[{Fate.COMMITTED}]] * 6
    with open_store(url) as store:
        assert store.keys() == {key((name, number)) for name in range(6) for number in range(20)}
    assert [path.name for path in tmp_path.iterdir()] == ["results.db"]
