"""``scalable admin cache``: what it lists, what it removes, and what it says of commands that cannot work."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalable.cli.main import main
from scalable.store.artefacts import open_artefacts

LONG_AGO_S = 30 * 86_400
Call = Callable[..., tuple[int, str, str]]
MANIFEST = """version: 1
project: {name: small}
targets: {local: {provider: local, max_workers: 2}}
profiles: {standard: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 2GiB}}}
artefacts: elsewhere
"""


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command in a folder with artefacts: two of stage ``features``, old ones, and one of ``row``."""
    monkeypatch.chdir(tmp_path)
    for name in ("SCALABLE_MANIFEST", "SCALABLE_TARGET", "SCALABLE_STORE_URL", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    artefacts = open_artefacts()
    for key in ("1" * 32, "2" * 32):
        artefacts.save("features", key, np.ones(1000))
        then = time.time() - LONG_AGO_S
        os.utime(tmp_path / f".scalable/artefacts/features/{key}.artefact", (then, then))
    artefacts.save("row", "3" * 32, {"sharpe": 1.5})

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = main(["admin", "cache", *arguments])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        return status, *capsys.readouterr()

    return run


def as_json(call: Call, *arguments: str) -> Any:
    status, out, err = call(*arguments, "--format", "json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_artefacts_are_listed_by_stage_the_largest_first(call: Call, tmp_path: Path) -> None:
    status, out, _ = call("ls")
    head, names, features, row = out.splitlines()

    assert status == 0
    assert head.startswith("3 artefacts, 16.")
    assert head.endswith(f"in {tmp_path}/.scalable/artefacts")
    assert names.split() == ["stage", "count", "size", "oldest", "newest", "last", "used"]
    assert features.split()[:2] == ["features", "2"]
    assert row.split()[:2] == ["row", "1"]

    told = as_json(call, "ls")
    assert told["count"] == 3
    assert told["bytes"] == sum(one["bytes"] for one in told["stages"]) > 16_000
    assert [one["stage"] for one in told["stages"]] == ["features", "row"]


def test_what_is_old_goes_once_it_was_shown_what_would(call: Call) -> None:
    status, out, _ = call("gc", "--older-than", "7d", "--dry-run")
    assert status == 0
    assert out.startswith("would remove 2 artefacts, 15.")
    assert as_json(call, "ls")["count"] == 3

    told = as_json(call, "gc", "--older-than", "7d")
    assert (told["removed"], told["kept"], told["in_use"], list(told["stages"])) == (2, 1, 0, ["features"])
    assert as_json(call, "ls")["count"] == 1


def test_what_is_too_much_goes_but_not_what_is_in_use(call: Call) -> None:
    with open_artefacts().using("sweep", ["1" * 32]):
        status, out, _ = call("gc", "--max-size", "0B")
    assert status == 0
    assert "removed 2 artefacts" in out
    assert "1 kept, 1 of them only because they are in use" in out


def test_without_a_condition_it_asks_for_one_and_removes_leftovers_only(call: Call, tmp_path: Path) -> None:
    (tmp_path / ".scalable/artefacts/row/torn.part").write_bytes(b"x")
    _, out, _ = call("gc")
    assert "removed 0 artefacts and 1 leftover of interrupted work, 1 B" in out
    assert "say which artefacts may go: --older-than 7d" in out


def test_what_no_sweep_would_use_goes(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalable.cli.commands.cache.reachable", lambda manifest: {"1" * 32})
    assert as_json(call, "gc", "--unreachable")["stages"]["features"]["count"] == 1
    assert as_json(call, "ls")["count"] == 1


def test_without_sweeps_nothing_is_reachable(call: Call, tmp_path: Path) -> None:
    (tmp_path / "scalable.yaml").write_text(MANIFEST)
    assert as_json(call, "gc", "--unreachable", "--artefacts", ".scalable/artefacts")["removed"] == 3


def test_the_manifest_says_where_they_are(call: Call, tmp_path: Path) -> None:
    (tmp_path / "scalable.yaml").write_text(MANIFEST)
    assert call("ls")[1] == f"no artefacts in {tmp_path}/elsewhere\n"
    assert call("ls", "--manifest", "missing.yaml")[0] != 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gc", "--max-size", "10"), "--max-size: '10' is not an amount of memory: it has no unit"),
        (("gc", "--older-than", "soon"), "--older-than: 'soon' is not"),
        (("ls", "--older-than", "7d"), "write  scalable admin cache gc --older-than"),
        (("rm",), "invalid choice: 'rm'"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_write(call: Call, arguments: tuple[str, ...], said: str) -> None:
    status, _, err = call(*arguments)
    assert status == 2
    assert said in err
