"""What a runner's environment is made of, and that real libraries obey it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from scalable.worker.runner.environment import child_environment


def test_numpy_makes_no_more_threads_than_the_slot_has_cpus() -> None:
    pytest.importorskip("numpy")
    script = (
        "import json, os, numpy\nx = numpy.ones((400, 400)) @ numpy.ones((400, 400))\n"
        "print(json.dumps(len(os.listdir('/proc/self/task'))))"
    )
    env = child_environment({**os.environ, "OPENBLAS_NUM_THREADS": "16"}, cpus=1)
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )

    assert json.loads(done.stdout) == 1
