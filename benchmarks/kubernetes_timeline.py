"""A whole sweep on an autoscaled pool, from no node to none, beside what was forecast for it.

``python -m benchmarks.kubernetes_timeline`` writes benchmarks/results/kubernetes_timeline.json. It starts a private
cluster around the binaries in ``$KUBEBUILDER_ASSETS`` or ``PATH``; its nodes take 20 s to come, and go after 30 s
without work. The sweep runs twice: by what the manifest says a run takes, then by what the first sweep has measured.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from tests.helpers.kubernetes.helpers import IMAGE, Namespace
from tests.helpers.kubernetes.timeline import Moment, Timeline
from tests.helpers.waiting import eventually
from tests.tools.kube import Settings, running

from scalable.session.session import ScalableSession

RESULTS = Path(__file__).parent / "results/kubernetes_timeline.json"
POOL, PROVISION_S, IDLE_S, PRICE = "compute", 20, 30, 0.1644
POOLS = Settings(
    pools={"platform": "1:cpu=4,memory=8Gi", POOL: "0:cpu=1,memory=4Gi"},
    autoscale={POOL: f"0:2:{PROVISION_S}:{IDLE_S}"},
)
NAME = "calibration"
SIZE = {"cpu": 1, "memory": "2GiB"}
MANIFEST: dict[str, Any] = {
    "version": 1,
    "project": {"name": "timeline"},
    "nodes": {"small": {"cpu": 1, "memory": "4GiB", "price": f"{PRICE} EUR/h"}},
    "pools": {
        POOL: {
            "node": "small", "min": 0, "max": 2, "provision": f"{PROVISION_S}s", "idle": f"{IDLE_S}s",
            "labels": {"pool": POOL},
        }
    },
    "profiles": {"small": {"request": SIZE, "limit": SIZE, "peak": "1GiB"}},
    "sweeps": {
        NAME: {
            "factor": NAME, "assets": "defi_top5", "folds": 3, "costs_bps": [10, 20, 30], "trials": 15,
            "profile": "small", "run_minutes": 0.017,
        }
    },
}  # fmt: skip
WIDTH = 60  # columns of a drawn timeline
WITHIN_S = 300.0


def main() -> None:
    home, own = Path.cwd(), os.environ.get("KUBECONFIG")
    rows = []
    with tempfile.TemporaryDirectory() as top, running(Path(top) / "cluster", POOLS) as cluster:
        version = cluster.admin.ask("GET", "/version")["gitVersion"]
        folder = Path(top) / "project"
        folder.mkdir()
        os.chdir(folder)
        for number, title in enumerate(("by the manifest", "by what was measured")):
            with Namespace.made(cluster, Path(top)) as kube:
                os.environ["KUBECONFIG"] = str(kube.kubeconfig)
                rows.append({"forecast": title, **swept(folder, kube, number)})
        os.chdir(home)
    os.environ.pop("KUBECONFIG") if own is None else os.environ.update(KUBECONFIG=own)
    facts = {"kubernetes": version, "python": platform.python_version(), "cpus": len(os.sched_getaffinity(0))}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({**facts, "sweeps": rows}, indent=2) + "\n")
    print(f"written to {RESULTS.relative_to(Path(__file__).parent.parent)}")


def swept(folder: Path, kube: Namespace, number: int) -> dict[str, Any]:
    """One sweep into a store of its own; what was planned and what came of it."""
    target = {
        "provider": "kubernetes", "namespace": kube.name, "image": IMAGE, "adaptive": {"minimum": 0, "maximum": 2},
    }  # fmt: skip
    places = {"store": f"sqlite:///results-{number}.db", "artefacts": f"{kube.shared}/artefacts"}
    file = folder / "scalable.yaml"
    file.write_text(yaml.safe_dump({**MANIFEST, **places, "targets": {"there": target}}, sort_keys=False))
    session = ScalableSession.from_yaml(file, target="there")
    plan = session.plan_sweep(NAME)
    with Timeline(kube, POOL) as seen:
        began = time.monotonic()
        outcome = session.run_sweep(NAME)
        took = time.monotonic() - began
        assert outcome.complete, outcome.why()
        eventually(lambda: not kube.nodes(POOL), lambda: "nodes to go", WITHIN_S)
    planned = [Moment(when, nodes, 0, 0) for when, nodes in plan.timeline]
    paid_s = seen.paid_s(PROVISION_S)
    facts = {
        "first node (s)": (first(planned), first(seen.moments)),
        "first worker runs (s)": (plan.ready_s, next(one.at for one in seen.moments if one.running)),
        "last row (s)": (plan.total_s, took),
        "last node gone (s)": (plan.over_s, seen.moments[-1].at),
        "most nodes": (plan.nodes_peak, seen.most("nodes")),
        "node-seconds paid": (plan.node_hours * 3600, paid_s),
        "EUR": (float(plan.cost.amount) if plan.cost else 0.0, paid_s / 3600 * PRICE),
    }
    show(facts, planned, seen.moments)
    return {
        "rows": outcome.finished,
        "facts": {name: [round(value, 4) for value in pair] for name, pair in facts.items()},
        "planned": [[round(one.at, 1), one.nodes] for one in planned],
        "seen": [[round(one.at, 1), *one[1:]] for one in seen.moments],
    }


def first(moments: Sequence[Moment]) -> float:
    return next(one.at for one in moments if one.nodes)


def show(facts: dict[str, tuple[float, float]], planned: Sequence[Moment], seen: Sequence[Moment]) -> None:
    print(f"{'':<24} {'forecast':>10} {'real':>10}")
    for name, (one, other) in facts.items():
        digits = 4 if name == "EUR" else 0
        print(f"{name:<24} {one:>10.{digits}f} {other:>10.{digits}f}")
    end = max(planned[-1].at, seen[-1].at)
    for title, moments in (("forecast", planned), ("real", seen)):
        print(f"{title:<9} nodes {''.join(str(nodes_at(moments, end * x / WIDTH)) for x in range(WIDTH + 1))}")
    print(f"{'':<15} 0 s {'':<{WIDTH - 12}} {end:.0f} s\n", flush=True)


def nodes_at(moments: Sequence[Moment], when: float) -> int:
    return next((one.nodes for one in reversed(moments) if one.at <= when), 0)


if __name__ == "__main__":
    main()
