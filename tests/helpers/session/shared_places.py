"""A sweep run asset by asset by several processes: one place for all, each row once, no attempt too many."""

from __future__ import annotations

import pytest

from tests.helpers.session.builders import Project
from tests.helpers.session.sweeps import Sweeps

STORE = "sqlite:///.scalable/results.db"

HOLDER = "dag run 1"


@pytest.fixture
def sweeps(project: Project) -> Sweeps:
    return Sweeps(project)
