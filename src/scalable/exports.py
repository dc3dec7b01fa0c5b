"""Names of a package that are imported when they are first used, so that importing the package costs next to nothing.

A package lists its names once, by the module that has them. Type checkers do not run this, so a block under
``TYPE_CHECKING`` imports the same names for them; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exports(
    package: str, homes: Mapping[str, tuple[str, ...]], within: str = ""
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` for a package whose names live in these modules.

    The modules are those of the package ``within``, or its own. Names of the module ``""`` are modules themselves.
    """
    parent = within or package
    home_of = {name: home for home, names in homes.items() for name in names}
    public = sorted(home_of)

    def import_name(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = home_of[name]
        value = getattr(import_module(f"{parent}.{home}"), name) if home else import_module(f"{parent}.{name}")
        setattr(sys.modules[package], name, value)  # the next time it is found without this
        return value

    return public, import_name, public.copy
