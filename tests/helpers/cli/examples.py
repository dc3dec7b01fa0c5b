"""The command line: what each command prints for people and machines, where it reads from, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli.commands import Call
from tests.helpers.paths import ROOT

EXAMPLE = ROOT / "examples/ftf/scalable.yaml"


@pytest.fixture
def example(call: Call, tmp_path: Path) -> Call:
    """The same, with the trading example as scalable.yaml."""
    (tmp_path / "scalable.yaml").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    return call
