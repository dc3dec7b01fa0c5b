"""``PrivatePrometheus``: a real Prometheus and Alertmanager on free ports, with a folder of their own.

They read the files that ``admin deploy prometheus`` writes, end with their test, and are told by the kernel to end
if this process dies. ``promtool`` and ``amtool`` check such files without a server.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.tools import system
from tests.tools.errors import ToolError

READY_S = 60.0  # a second is usual; a busy machine is forgiven
CHECK_S = 60.0
POLL_S = 0.05
LISTENING = re.compile(r'msg="Listening on" address=(\S+)')


def checked(*command: str, folder: Path) -> str:
    """What ``promtool`` or ``amtool`` prints in ``folder``; raises if it complains."""
    system.require(system.PROMETHEUS_PROGRAMS)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=CHECK_S)
    if done.returncode:
        raise ToolError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


class PrivatePrometheus:
    """Started by ``with``. ``files`` gives what both read, once Alertmanager's address is known."""

    def __init__(self, folder: Path, alertmanager_yml: str, files: Callable[[str], Mapping[str, str]]) -> None:
        system.require(system.PROMETHEUS_PROGRAMS)
        self.folder = folder
        self.alertmanager_yml = alertmanager_yml
        self.files = files
        self.prometheus = self.alertmanager = ""
        self._servers = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._write({"alertmanager.yml": self.alertmanager_yml})
            self.alertmanager = self._start(
                "prometheus-alertmanager",
                "alertmanager.yml",
                "--storage.path=alertmanager",
                "--cluster.listen-address=",
            )
            self._write(self.files(self.alertmanager))
            self.prometheus = self._start("prometheus", "prometheus.yml", "--storage.tsdb.path=prometheus")
        except BaseException:
            self._servers.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._servers.close()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What PromQL gives now; each with ``metric`` and ``value``."""
        asked = urllib.parse.urlencode({"query": expression})
        answer: list[dict[str, Any]] = self._asked(self.prometheus, f"/api/v1/query?{asked}")["data"]["result"]
        return answer

    def alerts(self) -> list[dict[str, Any]]:
        """What Alertmanager holds as firing; each with ``labels`` and ``annotations``."""
        answer: list[dict[str, Any]] = self._asked(self.alertmanager, "/api/v2/alerts?active=true")
        return answer

    def log(self, program: str) -> str:
        return (self.folder / f"{program}.log").read_text(encoding="utf-8", errors="replace")

    def _start(self, program: str, config: str, *options: str) -> str:
        """Its address, when it answers there; the port is one that the kernel gave it."""
        command = [program, f"--config.file={config}", "--web.listen-address=127.0.0.1:0", *options]
        with (self.folder / f"{program}.log").open("wb") as log:
            server = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._servers.callback(end, server)
        until = time.monotonic() + READY_S
        while not (found := LISTENING.search(self.log(program))) or not ready(found[1]):
            if server.poll() is not None or time.monotonic() > until:
                raise ToolError(f"{program} did not start: {self.log(program)[-2000:]}")
            time.sleep(POLL_S)
        return found[1]

    def _write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    @staticmethod
    def _asked(address: str, path: str) -> Any:
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=READY_S) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise ToolError(f"{path}: {error.read().decode(errors='replace')}") from None


def ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=READY_S) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()  # it listens before it is ready
    except OSError:
        pass
    return False


def end(server: subprocess.Popen[bytes]) -> None:
    server.kill()  # nothing that it would write down is read again
    server.wait()
