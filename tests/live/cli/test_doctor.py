"""``scalable doctor`` on this machine: what it finds before a run, what it says to do, and that it leaves no trace."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from tests.helpers.cli.doctor import GOOD, looked_at
from tests.helpers.cli.shells import shell


def test_a_script_can_ask_it(tmp_path: Path) -> None:
    (tmp_path / "scalable.yaml").write_text(GOOD)
    done = shell("scalable doctor --format json", tmp_path)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["ok"] is True


def test_a_port_that_somebody_has_fails(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        number = taken.getsockname()[1]
        check = looked_at(tmp_path, port=number)["port"]
        assert check.message == f"{number} cannot be used: Address already in use"
    assert looked_at(tmp_path, port=number)["port"].message == f"{number} is free"
