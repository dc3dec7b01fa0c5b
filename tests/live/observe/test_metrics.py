"""What Prometheus reads is what its own tool accepts: known names, help, types, escaped labels, in a stable order."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from scalable.observe.metrics import exposition
from tests.helpers.observe.metrics import every_sample
from tests.tools.system import search_path


@pytest.mark.skipif(shutil.which("promtool", path=search_path()) is None, reason="promtool is not installed")
def test_the_whole_catalogue_passes_prometheus_own_check() -> None:
    told = exposition(every_sample())
    done = subprocess.run(["promtool", "check", "metrics"], input=told, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
