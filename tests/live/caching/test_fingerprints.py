"""An edited function is another function; one that was only moved or described is not."""

from __future__ import annotations

import os
import subprocess
import sys

from scalable.store.caching import key_of
from tests.helpers.caching.fingerprints import DIFFERENT, of
from tests.helpers.paths import ROOT


def test_fingerprints_are_the_same_in_a_process_with_another_hash_seed() -> None:
    code = f"from {__name__} import *; print(*sorted(map(of, DIFFERENT.values())), key_of(involved))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        for seed in (1, 2)
    }

    assert printed == {" ".join([*sorted(map(of, DIFFERENT.values())), key_of(involved)]) + "\n"}


NAMES = {"one", "two", "three"}


class Base:
    names = frozenset({"one", "two", "three"})

    def method(self) -> set[str]:
        return NAMES | self.names


def involved(x: str) -> bool:
    return x in {"four", "five", "six"} or x in Base().method()
