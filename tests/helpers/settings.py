"""The environment without the product's own variables, which would change what a test sees."""

from __future__ import annotations

import os

import pytest

PREFIX = "SCALABLE_"


def without_settings() -> dict[str, str]:
    """Return the environment for a program that a test starts."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


def remove_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take them out of this process until the test ends."""
    for name in os.environ.keys() - without_settings().keys():
        monkeypatch.delenv(name)
