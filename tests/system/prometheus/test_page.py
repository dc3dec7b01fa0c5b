"""The page's commands that need Prometheus' own programs, run as written on what the command writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.cli.main import main
from tests.helpers.docs.snippets import name_of, needing, play
from tests.tools import system
from tests.tools.errors import ToolMissingError


@pytest.mark.parametrize("page", needing("prometheus"), ids=name_of)
def test_every_command_for_prometheus_does_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        system.require(system.PROMETHEUS_PROGRAMS)
    except ToolMissingError as error:
        pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    assert main(["admin", "deploy", "prometheus", "--output", "watch"]) == 0
    play(page, tmp_path, "prometheus")
