"""Opening a store in a file: which URLs work, how it is set up, and what is said when it cannot be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


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
