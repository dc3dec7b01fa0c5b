"""Scenes to make faults in: sessions, and runs whose processes are real but do nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.chaos.crowd import Crowd
from tests.helpers.session.builders import Project
from tests.helpers.session.fixtures import project

__all__ = ["project"]


@pytest.fixture
def crowd(project: Project) -> Iterator[Crowd]:
    """A run of two workers with two runners each; none of it is left afterwards."""
    with Crowd.gathered(workers=2, runners=2) as found:
        yield found
