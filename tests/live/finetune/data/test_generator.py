"""The generated market has what makes real ones hard, and is the same for the same seed."""

from __future__ import annotations

import subprocess
import sys

from scalable_finetune.market.generator import generate


def test_the_same_seed_gives_the_same_market_in_another_process() -> None:
    code = (
        "from scalable_finetune.market.generator import generate\nprint(generate('AAVEUSDC', 7, 0.1).close.sum().hex())"
    )
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert elsewhere.stdout.strip() == generate("AAVEUSDC", 7, 0.1).close.sum().hex()
