"""The command line: what each command prints for people and machines, where it reads from, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scalable.cli.main import RENAMED, main


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Answer]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command in an empty folder, with none of our variables set. No command may ever show a traceback.

    Commands of a group may be called by their own name: ``call("kill", …)``  is  ``scalable ops kill …``.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("MANIFEST", "TARGET", "SEED", "RUNS_DIR"):
        monkeypatch.delenv(f"SCALABLE_{name}", raising=False)
    for name in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Answer:
        try:
            first = [word for name in arguments[:1] for word in RENAMED.get(name, name).split(" ")]
            status = main([*first, *arguments[1:]])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Answer(status, out, err)

    return run
