"""A real Prometheus and Alertmanager watch: every alert fires and ends, people are told, and every panel has data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scalable.observe.alerts import RULES
from tests.helpers.prometheus.provoking import TOLD, watched_and_provoked
from tests.helpers.settings import remove_settings
from tests.tools import system
from tests.tools.errors import ToolMissingError


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the current one, and no settings of whoever runs the tests."""
    try:
        system.require(system.PROMETHEUS_PROGRAMS)
    except ToolMissingError as error:
        pytest.skip(str(error))
    remove_settings(monkeypatch)
    monkeypatch.setenv("SCALABLE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_alert_fires_and_ends_and_people_are_told_and_every_panel_has_data(alone: Path) -> None:
    seen = watched_and_provoked(alone)
    assert sorted(outcome.alert for outcome in seen.outcomes) == sorted(rule.name for rule in RULES)
    assert not seen.empty_panels
    assert seen.forgotten
    begun = [message for message in seen.messages if re.match(r"\w+ \((warning|page)\)\n", message)]
    assert {message.partition(" ")[0] for message in begun} == TOLD, seen.messages
    assert all("what to do: " in message for message in begun)
    assert any(message.startswith("Stuck (page)\nwhat runs on silent-0 has given no sign") for message in begun)
