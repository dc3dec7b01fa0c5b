"""The search: the same in any process, the same after a stop, better than chance only where there is something."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers.finetune.model.search import undisturbed

OTHER_PROCESS = """
from tests.helpers.finetune.model.builders import a_training, searched
from tests.helpers.finetune.model.search import TRIALS, fingerprint
print(fingerprint(searched(a_training(), trials=TRIALS)))
"""


def test_a_second_process_finds_the_same_to_the_bit() -> None:
    there = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS], check=True, capture_output=True, text=True, timeout=120
    )
    assert there.stdout.strip() == undisturbed()
