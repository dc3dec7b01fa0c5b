"""Manifests that ``scalable init`` writes are made to be edited: what is commented out in them works as well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import scalable
from scalable.cli.main import main

TEMPLATES = sorted((Path(scalable.__file__).parent / "cli/templates").glob("*.yaml"))
OFF = re.compile(r"^( *)# ( *[\w-]+:)(?=$| )", re.MULTILINE)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_what_is_commented_out_is_good_when_it_is_not(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = OFF.sub(r"\1\2", template.read_text(encoding="utf-8"))
    (tmp_path / "scalable.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "experiment.py").write_text("def score():\n    return {}\n", encoding="utf-8")
    (tmp_path / "my_module.py").write_text("def my_function(asset, fold):\n    return {}\n", encoding="utf-8")
    status = main(["validate"])
    assert (status, capsys.readouterr().err) == (0, "")
