"""What a pool has while something runs on it: nodes, pods and those of them that run, whenever one of these changes."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple

from tests.helpers.kubernetes.helpers import Namespace, over

LOOK_EVERY_S = 0.3


class Moment(NamedTuple):
    at: float
    """Seconds since the beginning."""
    nodes: int
    pods: int
    """Of workers, waiting or running."""
    running: int


class Timeline:
    def __init__(self, kube: Namespace, pool: str) -> None:
        self.kube = kube
        self.pool = pool
        self.moments: list[Moment] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self.look, daemon=True)

    def __enter__(self) -> Timeline:
        self.began = time.monotonic()
        self.note()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self.note()

    def look(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self.note()

    def note(self) -> None:
        pods = [pod for pod in self.kube.pods("scalable/worker") if not over(pod)]
        running = sum(pod["status"].get("phase") == "Running" for pod in pods)
        now = Moment(time.monotonic() - self.began, len(self.kube.nodes(self.pool)), len(pods), running)
        if not self.moments or self.moments[-1][1:] != now[1:]:
            self.moments.append(now)

    def most(self, what: str) -> int:
        return max(int(getattr(moment, what)) for moment in self.moments)

    def paid_s(self, start_s: float) -> float:
        """Return node-seconds that are paid: nodes while they are there, and ``start_s`` of each before it came."""
        pairs = list(pairwise(self.moments))
        there = sum((after.at - before.at) * before.nodes for before, after in pairs)
        return there + start_s * sum(max(0, after.nodes - before.nodes) for before, after in pairs)
