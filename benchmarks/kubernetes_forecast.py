"""Forecasts of runs on an autoscaled pool beside what came of them: one sweep, a lost pod, two sweeps.

``python -m benchmarks.kubernetes_forecast`` writes benchmarks/results/kubernetes_forecast.json. It starts a private
cluster around the binaries in ``$KUBEBUILDER_ASSETS`` or ``PATH``. Jobs only sleep, so that other work of the machine
disturbs them little; nodes take 20 s to come and go after 30 s without work. Two runs are for learning, and are not
compared. A forecast of a run that loses a pod is given that fault and nothing else.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.helpers.kubernetes.helpers import Namespace
from tests.helpers.kubernetes.naps import NapPool, naps, write_code
from tests.helpers.kubernetes.timeline import Timeline
from tests.helpers.waiting import eventually
from tests.tools.kube import Settings, running

from scalable.observe.journal import read
from scalable.observe.view import RunView
from scalable.planning.loads import sweep_load
from scalable.planning.simulation import Faults, JobFault, SimulationOutcome
from scalable.planning.simulation.faults import FaultKind
from scalable.session.session import ScalableSession

RESULTS = Path(__file__).parent / "results/kubernetes_forecast.json"
POOL = NapPool("compute", provision_s=20, idle_s=30, most=3)
POOLS = Settings(
    pools={"platform": "1:cpu=4,memory=8Gi", POOL.name: "0:cpu=1,memory=4Gi"}, autoscale={POOL.name: POOL.settings}
)
JOB_S = 5.0
WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What is forecast of a run and measured of it, in seconds from its start."""

    last_row: float
    last_node_gone: float
    nodes: float
    node_seconds: float
    """Paid: while they start, work and idle."""

    @classmethod
    def of(cls, outcome: SimulationOutcome) -> Figures:
        paid = sum(outcome.node_hours().values()) * 3600
        return cls(outcome.ended, outcome.over, outcome.peak_nodes, paid)

    @property
    def euros(self) -> float:
        return self.node_seconds / 3600 * POOL.price


class Bench:
    def __init__(self, folder: Path, kube: Namespace) -> None:
        self.folder = folder
        self.kube = kube
        self.number = 0
        self.scenes: list[dict[str, Any]] = []

    def session(self, workers: int, variants: int, sweeps: int = 1) -> ScalableSession:
        """Sweeps of sleeping jobs whose rows are nowhere yet."""
        self.number += 1
        manifest = naps(
            self.kube, POOL, self.number, job_s=JOB_S, workers=workers, variants=variants, sweeps=sweeps
        )  # fmt: skip
        file = self.folder / "scalable.yaml"
        file.write_text(yaml.safe_dump(manifest, sort_keys=False))
        return ScalableSession.from_yaml(file, target="there")

    def one(self, title: str, workers: int, variants: int, *, faults: Faults | None = None, lose: bool = False) -> None:
        session = self.session(workers, variants)
        plan = session.plan_sweep("naps-0", policy="manual")
        site = session.site()
        planned = sweep_load(site, "naps-0", session.history()).planned(plan.workers)
        stage = site.stage([planned], plan=plan.scale_plan)
        if lose:
            first = JobFault(FaultKind.WORKER_DIES)
            faults = Faults(jobs={(stage.sweeps[0].jobs[0].id, 1): first})
        forecast = Figures.of(stage.simulate(faults=faults))

        def work() -> None:
            if lose:
                threading.Thread(target=self.lose_pod, daemon=True).start()
            outcome = session.run_sweep("naps-0", plan)
            assert outcome.complete, outcome.why()

        self.compare(title, forecast, work)

    def in_turn(self, title: str) -> None:
        session = self.session(1, 2, sweeps=2)
        campaign = session.plan()
        turns = campaign.in_turn  # type: ignore[union-attr]
        assert turns is not None
        forecast = Figures(turns.total_s, turns.over_s, turns.nodes_peak, turns.node_hours * 3600)

        def work() -> None:
            for name in session.manifest.sweeps:
                again = ScalableSession.from_yaml(session.path, target="there")
                assert again.run_sweep(name).complete

        self.compare(title, forecast, work)

    def together(self, title: str) -> None:
        session = self.session(1, 2, sweeps=2)
        campaign = session.plan()
        paid = campaign.node_hours * 3600  # type: ignore[union-attr]
        forecast = Figures(campaign.total_s, campaign.over_s, campaign.nodes_peak, paid)  # type: ignore[union-attr]

        def work() -> None:
            with session:
                threads = [threading.Thread(target=session.run_sweep, args=(name,)) for name in session.manifest.sweeps]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()

        self.compare(title, forecast, work)

    def compare(self, title: str, forecast: Figures, work: Callable[[], None]) -> None:
        before = {path.name for path in self.runs()}
        eventually(lambda: not self.kube.nodes(POOL.name), lambda: "an empty pool", WITHIN_S)
        with Timeline(self.kube, POOL.name) as seen:
            clock = time.time()
            work()
            eventually(lambda: not self.kube.nodes(POOL.name), lambda: "nodes to go", WITHIN_S)
        views = [RunView.of(read(path / "journal.jsonl")) for path in self.runs() if path.name not in before]
        last = max(view.work_ended or 0.0 for view in views) - clock
        real = Figures(last, seen.moments[-1].at, seen.most("nodes"), seen.paid_s(POOL.provision_s))
        self.show(title, forecast, real, views)

    def runs(self) -> list[Path]:
        base = self.folder / ".scalable/runs"
        return sorted(path for path in base.iterdir() if path.is_dir()) if base.exists() else []

    def show(self, title: str, forecast: Figures, real: Figures, views: list[RunView]) -> None:
        names = ("last_row", "last_node_gone", "nodes", "node_seconds", "euros")
        pairs = {name: (getattr(forecast, name), getattr(real, name)) for name in names}
        print(title)
        for name, (said, came) in pairs.items():
            print(f"  {name:<16} {said:>9.4g} {came:>9.4g} {100 * (said / came - 1):>+7.1f} %", flush=True)
        self.scenes.append(
            {"scene": title, "retries": sum(view.retries.total() for view in views), **pairs}
        )  # fmt: skip

    def lose_pod(self) -> None:
        """Kill the first pod's process in the middle of its first job."""
        eventually(lambda: any(view.running for view in self.live()), lambda: "a job to run", WITHIN_S)
        time.sleep(JOB_S / 2)
        for pod in self.kube.workers().values():
            for status in pod["status"].get("containerStatuses", ()):
                with suppress(ProcessLookupError, ValueError):
                    os.kill(int(status["containerID"].removeprefix("process://")), signal.SIGKILL)
                    return

    def live(self) -> list[RunView]:
        return [RunView.of(read(path / "journal.jsonl")) for path in self.runs()[-1:]]


def main() -> None:
    home, own = Path.cwd(), os.environ.get("KUBECONFIG")
    with tempfile.TemporaryDirectory() as top, running(Path(top) / "cluster", POOLS) as cluster:
        version = cluster.admin.ask("GET", "/version")["gitVersion"]
        folder = Path(top) / "project"
        folder.mkdir()
        write_code(folder, JOB_S)
        os.chdir(folder)
        try:
            with Namespace.made(cluster, Path(top)) as kube:
                os.environ["KUBECONFIG"] = str(kube.kubeconfig)
                bench = Bench(folder, kube)
                for _ in range(2):
                    bench.one("for learning, one node", 1, 1)
                learned = len(bench.scenes)
                bench.one("one node", 1, 1)
                bench.one("two nodes", 2, 2)
                bench.one("three nodes", 3, 3)
                bench.one("one node, a pod is lost", 1, 1, lose=True)
                bench.one("two nodes, a pod is lost", 2, 2, lose=True)
                bench.in_turn("two sweeps in turn, a session each")
                bench.together("two sweeps together in one session")
                history = json.loads((folder / ".scalable/history.json").read_text())["starts"]
        finally:
            os.chdir(home)
    os.environ.pop("KUBECONFIG") if own is None else os.environ.update(KUBECONFIG=own)
    facts = {"kubernetes": version, "python": platform.python_version(), "cpus": len(os.sched_getaffinity(0))}
    RESULTS.parent.mkdir(exist_ok=True)
    content = {**facts, "scenes": bench.scenes[learned:], "starts": history}
    RESULTS.write_text(json.dumps(content, indent=2) + "\n")
    print(f"written to {RESULTS.relative_to(Path(__file__).parent.parent)}")


if __name__ == "__main__":
    main()
