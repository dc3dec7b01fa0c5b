"""What a client decides by itself, and what it says of tasks that were given up."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from scalable.cluster.base import WorkerFate
from scalable.cluster.client import ScalableClient, WorkerKilledError
from scalable.engine.events import Loss
from scalable.quantities import Memory


@pytest.mark.parametrize(
    ("all_of_them", "asked", "options", "guarded"),
    [
        (False, None, {}, False),
        (False, True, {}, True),
        (True, None, {}, True),
        (True, False, {}, False),
        (True, None, {"actor": True}, False),
        (True, None, {"actors": True}, False),
    ],
)
def test_the_policy_decides_about_tasks_that_say_nothing(
    all_of_them: bool, asked: bool | None, options: dict[str, Any], guarded: bool
) -> None:
    client: Any = SimpleNamespace(guards_all=all_of_them)
    assert ScalableClient.is_guarded(client, asked, options) is guarded


def test_an_error_for_lack_of_memory_names_the_size_to_ask_for() -> None:
    fate = WorkerFate(Loss.OUT_OF_MEMORY, "used 500 MiB of the 400 MiB it may use", Memory.parse("500MiB"))
    error = WorkerKilledError("eat-1", "demeter-0", 1, fate, Memory.parse("400MiB"))
    assert str(error).endswith("ask for memory: 768MiB")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_error_for_another_death_counts_the_workers() -> None:
    error = WorkerKilledError("die-1", "demeter-0", 1, WorkerFate(Loss.WORKER_LOST, "crashed"))
    assert "given up after 2 workers died of it" in str(error)
