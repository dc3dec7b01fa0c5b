"""The former name of ``scalable_finetune``: manifests, scripts and pickled artefacts may still say it.

``scalable.finetune.search`` is the very module ``scalable_finetune.search``, so classes and functions exist once
whichever name they are imported by.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

OWN = __name__
MOVED_TO = "scalable_finetune"


class MovedModules(MetaPathFinder, Loader):
    """Finds ``scalable.finetune.NAME`` as the module of ``scalable_finetune`` that it is."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.startswith(f"{OWN}.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(MOVED_TO + spec.name.removeprefix(OWN))
        spec.loader_state = module.__spec__  # which the import system is about to replace
        for name, part in list(sys.modules.items()):
            if name.startswith(f"{module.__name__}."):
                # to import it once more would set it on the package, where a function may have the same name
                sys.modules.setdefault(OWN + name.removeprefix(MOVED_TO), part)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing but undo: the module has been executed under its own name."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {OWN!r} has no attribute {name!r}")
    return getattr(import_module(MOVED_TO), name)


if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
    sys.meta_path.insert(0, MovedModules())  # before the finder of files, which finds none of them here
