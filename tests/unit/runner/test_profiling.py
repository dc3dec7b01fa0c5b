"""Flame graphs of real processes, and the words for those of which there is none."""

from __future__ import annotations

import pytest

from scalable.errors import ScalableError
from scalable.worker.runner import stacks
from tests.helpers.runner.profiling import graph


def test_without_py_spy_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "py_spy", lambda: None)
    with pytest.raises(ScalableError, match="pip install py-spy"):
        graph(1)


def test_lengths_that_make_no_sense_are_refused() -> None:
    for seconds in (0, -1, 1e9, float("nan")):
        with pytest.raises(ScalableError, match="up to 600 s"):
            graph(1, seconds)
