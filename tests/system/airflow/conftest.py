"""An Airflow for tests: installed on first use, some minutes; its environment is kept in the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.airflow.desk import Desk
from tests.helpers.paths import ROOT
from tests.tools import packages
from tests.tools.errors import ToolMissingError

CONSTRAINTS = ROOT / "constraints-airflow.txt"
WANTED = ("apache-airflow==", "apache-airflow-providers-cncf-kubernetes==")


@pytest.fixture(scope="session")
def programs() -> Path:
    pins = [line for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines() if line.startswith(WANTED)]
    try:
        return packages.environment("airflow", ["-c", str(CONSTRAINTS), *pins], apart=True)
    except ToolMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def empty_database(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To be copied: making its tables takes longer than a test."""
    desk = Desk(tmp_path_factory.mktemp("airflow"), programs)
    done = desk.airflow("db", "migrate")
    assert done.returncode == 0, done.stdout[-3000:]
    return desk.database


@pytest.fixture
def desk(programs: Path, empty_database: Path, tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, programs)
    desk.database.write_bytes(empty_database.read_bytes())
    return desk
