"""An edited function is another function; one that was only moved or described is not."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from scalable.store.caching.fingerprints import Fingerprint


def module(source: str, name: str = "mine", **names: Any) -> ModuleType:
    """A module as if it had been imported from a file with this text."""
    made = ModuleType(name)
    made.__file__ = f"/project/{name}.py"
    vars(made).update(names)
    sys.modules[name] = made  # where dataclasses look for it
    try:
        exec(compile(source, made.__file__, "exec"), vars(made))
    finally:
        del sys.modules[name]
    return made


def of(source: str, **names: Any) -> str:
    return Fingerprint.of(module(source, **names).f).key


DIFFERENT = {
    "another constant": "def f(x):\n    'what it does'\n    return x + 2\n",
    "a constant of another type": "def f(x):\n    'what it does'\n    return x + 1.0\n",
    "another operation": "def f(x):\n    'what it does'\n    return x - 1\n",
    "another attribute": "def f(x):\n    'what it does'\n    return x.real + 1\n",
    "a default of a keyword": "def f(x, *, y=1):\n    'what it does'\n    return x + 1\n",
    "a function within": "def f(x):\n    'what it does'\n    return (lambda: x + 1)()\n",
}
