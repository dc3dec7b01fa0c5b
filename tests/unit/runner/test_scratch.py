"""The folder for half-done work: made when asked for, kept after a failure, gone after a success."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

import scalable
from scalable.worker.runner.calls import Call
from scalable.worker.runner.scratch import scratch_at


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("halves")
    monkeypatch.setitem(sys.modules, "halves", module)
    return module


def test_a_task_goes_on_from_what_it_kept_and_leaves_nothing_when_it_has_finished(
    module: types.ModuleType, tmp_path: Path
) -> None:
    folder = tmp_path / "scratch" / "task" / "key"

    def halves(fails: bool) -> str:
        place = scalable.scratch()
        assert place == folder
        before = (place / "half").read_text() if (place / "half").exists() else ""
        (place / "half").write_text("half")
        if fails:
            raise ValueError("cut off")
        return before

    module.halves = halves  # type: ignore[attr-defined]
    call = Call("halves:halves", False, scratch=str(folder))
    with pytest.raises(ValueError, match="cut off"):
        call(fails=True)
    assert (folder / "half").read_text() == "half"
    assert call(fails=False).value == "half"
    assert not folder.exists()


def test_a_task_without_checkpoints_has_no_folder(module: types.ModuleType) -> None:
    module.asks = scalable.scratch  # type: ignore[attr-defined]
    assert Call("halves:asks", False)().value is None


def test_a_folder_that_cannot_be_made_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with scratch_at(tmp_path / "file" / "below"):
        assert scalable.scratch() is None
    assert scalable.scratch() is None
