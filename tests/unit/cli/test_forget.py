"""``scalable admin forget``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalable.cli.main import main

MANIFEST = """version: 1
project: {name: lab}
sweeps:
  slow: {factor: calibration, assets: [A], settings: {years: 9}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / ".scalable" / "runs"
    runs.mkdir(parents=True)
    use = {"run": "", "base": "", "code": "x", "peak": "3GiB", "short": ["standard"]}
    entries = [{**use, "settings": "years=9"}, {**use, "settings": ""}]
    (runs / "history.json").write_text(json.dumps({"memory": {"calibration": entries}}))
    return tmp_path


def settings_left(folder: Path) -> list[str]:
    history = json.loads((folder / ".scalable/history.json").read_text())
    return [entry["settings"] for entry in history["memory"]["calibration"]]


def test_the_peak_of_a_sweep_is_forgotten_with_its_settings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "scalable.yaml").write_text(MANIFEST)
    assert main(["admin", "forget", "peak", "slow", "--format", "json"]) == 0
    [gone] = json.loads(capsys.readouterr().out)["forgotten"]
    assert (gone["name"], gone["settings"], gone["peak"]) == ("calibration", "years=9", "3GiB")
    assert settings_left(folder) == [""]


def test_without_a_manifest_a_factor_is_meant(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admin", "forget", "peak", "calibration"]) == 0
    assert capsys.readouterr().out.count("3GiB, out of memory on standard") == 2
    assert settings_left(folder) == []
    assert main(["admin", "forget", "peak"]) == 0
    assert "no peak was measured" in capsys.readouterr().out
