"""How a worker in a cloud is handed its secrets, what its machine runs, and what a target's check finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalable.cluster.clouds.fleet import boot_script, ending
from scalable.quantities import Memory
from tests.helpers.cluster.clouds import a_handout
from tests.helpers.waiting import LONG_S

START = [sys.executable, "-m", "scalable.cluster.clouds.start"]


def test_the_secret_is_in_no_environment_of_the_worker(tmp_path: Path) -> None:
    """The worker's preload script looks; it ends there, so no scheduler is needed."""
    spy = tmp_path / "spy.py"
    spy.write_text(
        "import json, os\n"
        f"open({str(tmp_path / 'seen')!r}, 'w').write(json.dumps(dict(os.environ)))\n"
        "raise RuntimeError('seen enough')\n"
    )
    env = {**os.environ, "SCALABLE_HANDOUT": a_handout(tmp_path / "here"), "TMPDIR": str(tmp_path)}
    line = [*START, "environment", "tcp://127.0.0.1:1", "--name=a-0", "--resource=a=1", f"--preload={spy}"]
    subprocess.run([*line, "--connect-within=1"], env=env, capture_output=True, text=True, timeout=LONG_S)
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["WHO"] == "me"
    assert "SCALABLE_HANDOUT" not in seen


def test_the_program_of_a_machine_is_valid_shell_and_runs_the_worker_in_its_limits(tmp_path: Path) -> None:
    script = boot_script("lab/worker:1.2", ["python3", "-m", "x", "tag=a b"], memory=Memory.of_gib(2))
    file = tmp_path / "boot.sh"
    file.write_text(script)
    subprocess.run(["bash", "-n", str(file)], check=True, timeout=LONG_S)
    assert f"--memory={2 * 2**30}" in script
    assert "lab/worker:1.2 python3 -m x 'tag=a b'" in script
    assert "shutdown -h now" in script


@pytest.mark.parametrize(
    ("pulls", "runs", "code", "oom", "expected", "said"),
    [
        (0, 0, 0, "false", (0, False), "closed"),
        (0, 0, 137, "true", (137, True), "closed"),
        (1, 0, 0, "false", (125, False), "cannot pull lab/worker:1"),
        (0, 1, 0, "false", (125, False), "cannot run lab/worker:1"),
    ],
)
def test_a_machine_says_on_its_console_how_the_worker_ended(
    pulls: int, runs: int, code: int, oom: str, expected: tuple[int, bool], said: str, tmp_path: Path
) -> None:
    """The program is run with stand-ins for Docker and the commands of a machine."""
    stand_ins = tmp_path / "bin"
    stand_ins.mkdir()
    docker = f"""case $1 in
        pull) exit {pulls};; run) exit {runs};; wait) echo {code};; inspect) echo {oom};;
        logs) echo 'scalable worker: closed';; esac"""
    for name, body in (("docker", docker), ("shutdown", f"touch {tmp_path}/off"), ("sleep", ":"), ("sync", ":")):
        (stand_ins / name).write_text(f"#!/bin/sh\n{body}\n")
        (stand_ins / name).chmod(0o755)
    script = boot_script("lab/worker:1", ["python3"]).replace("/dev/console", str(tmp_path / "console"))
    path = f"{stand_ins}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", script], env={"PATH": path}, timeout=LONG_S, capture_output=True, check=False)
    found = ending((tmp_path / "console").read_text())
    assert found is not None
    assert (found.code, found.out_of_memory) == expected
    assert (tmp_path / "off").exists()
    assert found.message == said
