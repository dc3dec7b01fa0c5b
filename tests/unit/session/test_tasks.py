"""The manifest's tasks: in the order they need, with what they need, and with the truth about what failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scalable import ManifestError
from scalable.errors import UsageError
from scalable.session.tasks import as_json
from tests.helpers.session.builders import Project
from tests.helpers.session.tasks import a_session


def test_tasks_that_need_each_other_are_refused_with_the_manifest(project: Project) -> None:
    with pytest.raises(ManifestError, match="need each other"):
        a_session(project, {"a": ("value", {"needs": ["b"]}), "b": ("value", {"needs": ["a"]})})


def test_a_session_that_is_not_running_runs_no_tasks(project: Project) -> None:
    with pytest.raises(UsageError, match="not running"):
        a_session(project, {"a": ("value", {})}).run_tasks()


def test_results_are_told_as_json_where_they_have_such_a_form() -> None:
    np = pytest.importorskip("numpy")
    own: list[Any] = []
    own.append(own)
    assert as_json({"n": np.int64(3), "x": np.float32(0.5), "yes": True, "nan": float("nan"), "at": {1}}) == {
        "n": 3, "x": 0.5, "yes": True, "nan": "nan", "at": "{1}"
    }  # fmt: skip
    assert "[[...]]" in json.dumps(as_json(own))
