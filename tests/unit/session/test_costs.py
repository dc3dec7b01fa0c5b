"""What a session pays is counted while it runs, adds up when it is over, and stops it when the budget is used up."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalable.cluster.base import ClusterHandle, DeploymentSpec, HeldAllocation, Node, WorkerTemplate
from scalable.engine import Rules, WorkerKind
from scalable.engine.events import Instruction, Job, JobState, KillJob, SpendChanged, SubmittedSweep, SweepKind
from scalable.machine_hours import HeldResources
from scalable.manifest.targets import REGISTERED
from scalable.observe.journal import Journal
from scalable.planning.placement import PoolRoom
from scalable.planning.resources import Size
from scalable.planning.simulation import simulate
from scalable.planning.simulation.cluster import ModelPool
from scalable.planning.simulation.durations import Fixed
from scalable.quantities import Cpu, Memory, Money
from scalable.session.driver.driver import Driver
from scalable.session.money.costs import JobMeter, MeteredMachine, ObservedMeter, WorkerMeter
from scalable.session.money.tariffs import Rent, Tariff, in_one_currency
from scalable.session.session import ScalableSession
from scalable.session.sweep.outcomes import SweepOutcome
from tests.helpers.session.builders import Project
from tests.helpers.session.inn import Inn
from tests.helpers.session.virtual import VirtualLauncher, World
from tests.helpers.session.virtual_workers import VirtualWorker

pytestmark = pytest.mark.usefixtures("world")


class Agency:
    """What a meter asks a cluster for."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.members: dict[str, Any] = {}
        self.templates = {"a": WorkerTemplate("a")}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "ledger.jsonl") as journal:
        yield journal


def metered(ledger: Journal, *, hired: bool) -> tuple[WorkerMeter, list[SpendChanged]]:
    told: list[SpendChanged] = []
    tariff = Tariff("workers", "EUR", {"a": Money.parse("3600 EUR")}, hired=hired)
    cluster: Any = Agency()
    return WorkerMeter(cluster, ledger, tariff, told.append), told


def test_a_hired_machine_is_paid_from_when_it_is_asked_for_and_a_minute_though_its_worker_never_comes(
    ledger: Journal,
) -> None:
    meter, told = metered(ledger, hired=True)
    meter.heard("worker-started", {"worker": "a-0", "tag": "a"})
    assert told[-1].per_hour.amount == 3600
    assert told[-1].spent.amount + told[-1].wind_down.amount == pytest.approx(60), "a euro a second"
    meter.heard("worker-lost", {"worker": "a-0", "tag": "a"})
    assert told[-1].per_hour.amount == 0
    assert told[-1].spent.amount + told[-1].wind_down.amount == pytest.approx(60)
    meter.close()
    assert meter.spent is not None and meter.spent.amount == pytest.approx(60)


def test_a_hired_machine_is_paid_once_and_until_it_goes(ledger: Journal) -> None:
    meter, _ = metered(ledger, hired=True)
    meter.started("a-0", "a", 1000.0)
    meter.joined("a-0", "a", 1070.0)
    meter.left("a-0", "a", 1100.0)
    [machine] = meter.machines.values()
    assert (machine.since, machine.until, machine.cost(2000.0)) == (1000.0, 1100.0, Decimal(100))


def test_a_worker_in_a_queue_costs_nothing(ledger: Journal) -> None:
    meter, told = metered(ledger, hired=False)
    meter.heard("worker-started", {"worker": "a-0", "tag": "a"})
    assert not told and not meter.machines
    meter.heard("worker-joined", {"worker": "a-0", "tag": "a"})
    assert told[-1].per_hour.amount == 3600 and told[-1].wind_down.amount == 0


class Jobs:
    """A launcher whose workers are in batch jobs."""

    def __init__(self) -> None:
        self.there: list[HeldAllocation] = []

    def holdings(self) -> Sequence[HeldAllocation]:
        return self.there


def test_batch_jobs_are_paid_for_all_that_they_hold_from_their_start_to_their_end(ledger: Journal) -> None:
    cluster: Any = Agency()
    cluster.launcher = jobs = Jobs()
    tariff = Tariff("batch jobs as Slurm has them", "EUR", {"a": Money.parse("1 EUR")}, core=Money.parse("3600 EUR"))
    meter = JobMeter(cluster, ledger, tariff, lambda _: None)
    for name in ("a-0", "a-1"):
        launched = SimpleNamespace(job="job 7")
        cluster.members[name] = SimpleNamespace(
            name=name, tag="a", launched=launched, joined=True, template=cluster.templates["a"]
        )
        meter.started(name, "a", 900.0)
    assert not meter.machines, "a queue costs nothing"
    jobs.there = [HeldAllocation("7", HeldResources(16, 1), 1000.0)]
    meter.joined("a-0", "a", 1010.0)
    [machine] = meter.machines.values()
    assert (machine.name, machine.pool, machine.since, machine.cost(1010.0)) == ("job 7", "a", 1000.0, Decimal(160))
    assert machine.workers == {"a-0": 1 / 16, "a-1": 1 / 16}
    meter.left("a-0", "a", 1020.0)
    assert machine.cost(1020.0) == 320, "the job holds its node until its last worker is gone"
    jobs.there = [HeldAllocation("7", HeldResources(16, 1), 1000.0, 1030.0)]
    meter.left("a-1", "a", 1030.0)
    assert machine.cost(2000.0) == 480


class Owner:
    """A launcher that says which nodes there are."""

    def __init__(self, *nodes: Node) -> None:
        self.there = nodes

    def nodes(self) -> Sequence[Node]:
        return self.there

    def node_of(self, worker: str) -> str | None:
        return None


def observed(ledger: Journal, rent: Rent, *ages: float, awaited: bool = True) -> list[MeteredMachine]:
    """Nodes that appeared so many seconds after the run began, as they are paid; moments count from there."""
    cluster: Any = Agency()
    meter = ObservedMeter(cluster, ledger, Tariff("nodes as observed", "EUR", pools={"compute": rent}), lambda _: None)
    meter.began = 0.0
    nodes = (Node(f"n{place}", "compute", age, awaited=awaited) for place, age in enumerate(ages))
    cluster.launcher = Owner(*nodes)
    meter.look(1000.0)
    return list(meter.machines.values())


RENT = Rent(Money.parse("3600 EUR"), tail_s=5.0, start_s=30.0)


@pytest.mark.parametrize(
    ("appeared", "awaited", "paid_from"),
    [(100, True, 70), (20, True, 0), (-50, True, 0), (100, False, 100)],
    ids=["started for the run", "started just before", "there before", "found ready, of unknown age"],
)
def test_a_node_is_paid_from_the_start_of_its_machine_if_that_was_for_the_run(
    ledger: Journal, appeared: float, awaited: bool, paid_from: float
) -> None:
    [machine] = observed(ledger, RENT, appeared, awaited=awaited)
    assert (machine.since, machine.up) == (paid_from, appeared)


def test_as_many_nodes_as_are_always_there_cost_a_run_nothing(ledger: Journal) -> None:
    machines = observed(ledger, replace(RENT, standing=1), -60, -50, 100)
    assert [machine.standing for machine in machines] == [True, False, False]
    assert [int(machine.price) for machine in machines] == [0, 3600, 3600]


def test_amounts_of_two_currencies_are_never_added_up() -> None:
    prices = {"a": Money.parse("1 EUR"), "b": Money.parse("2 USD"), "c": Money.parse("3 EUR")}
    kept, said = in_one_currency(prices)
    assert list(kept) == ["a", "c"]
    assert said == ("not counted beside EUR: b, USD 2.00 an hour",)


def simulated(jobs: tuple[Job, ...], budget: str) -> tuple[list[Instruction], dict[JobState, int], Money]:
    """Runs of 10 minutes, of which nobody knew how long they take, on nodes of 4 workers that cost EUR 1 an hour."""
    size, price = Size(Cpu.of(1), Memory.of_gib(1)), Money.parse("1 EUR")
    node = Size(Cpu.of(4), Memory.of_gib(8))
    room = PoolRoom("compute", node, 2, {"small": size}, price=price, idle_s=600)
    kinds = {"small": WorkerKind("small", "compute", Memory.of_gib(2))}
    told: list[Instruction] = []
    outcome = simulate(
        Rules(kinds, {"compute": room}, budget=Money.parse(budget)), {"compute": ModelPool(room, cpus=4.0)},
        [SubmittedSweep("a", SweepKind.NORMAL, jobs, 4)], caps={"small": 1.0}, durations={"a": Fixed(600)},
        journal=lambda now, event, instructions: told.extend(instructions),
    )  # fmt: skip
    return told, outcome.states, outcome.cost({"compute": price}, "EUR")


def test_in_the_simulated_world_the_same_brake_starts_nothing_more_and_lets_what_runs_end() -> None:
    jobs = tuple(Job(f"a/{number}", "a", "small") for number in range(40))
    told, states, paid = simulated(jobs, "1 EUR")
    assert states[JobState.FINISHED] == 16 and states[JobState.STOPPED] == 24
    assert not [one for one in told if isinstance(one, KillJob)], "what the money does not cover is not begun"
    assert paid.amount <= 1
    _, rest, _ = simulated(jobs[16:], "5 EUR")
    assert rest == {JobState.FINISHED: 24}


CODE = """
import time
from scalable.sweeps.stages import stage
from scalable.sweeps.workload import Workload

@stage(reads=("asset", "depth"))
def fitted(*, asset, depth):
    time.sleep({seconds})
    with open("executed.log", "a") as log:
        log.write(f"{{asset}} {{depth}}" + chr(10))
    return len(asset) * depth

@stage(reads=("cost_bps",), keep=False)
def row(fitted, *, cost_bps):
    return {{"score": fitted - cost_bps}}

work = Workload((fitted, row), unit="fitted")
"""


EURO_A_SECOND = "3600 EUR/h"


KEPT = 60  # seconds whose price the brake keeps for stopping


def session(project: Project, target: dict[str, Any], seconds: float | str = 0.05, **sections: Any) -> ScalableSession:
    """One sweep of 4 depths × 3 assets × 2 costs: 24 rows, 12 units."""
    name = f"swept_{abs(hash(project.folder))}"  # no other test's is found instead
    (project.folder / f"{name}.py").write_text(CODE.format(seconds=seconds), encoding="utf-8")
    sweep = {
        "factor": "depth", "variants": [1, 2, 3, 4], "assets": ["A", "BB", "CCC"], "folds": 1, "costs_bps": [1, 2],
        "run": f"{name}:work", "run_minutes": 0.01, "workers": 2, "profile": "small",
    }  # fmt: skip
    size = {"cpu": 1, "memory": "1GiB"}
    profiles = {"small": {"request": size, "limit": size}}
    return project.session(components={}, profiles=profiles, sweeps={"trial": sweep}, target=target, **sections)


def compute(session: ScalableSession) -> SweepOutcome:
    """With the manifest's two workers, whatever a plan would choose."""
    return session.run_sweep("trial", session.plan_sweep("trial", policy="manual"))


def report(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.runs()[-1] / "report.json").read_text(encoding="utf-8"))
    return found


def adds_up(cost: dict[str, Any]) -> bool:
    parts = (Decimal(str(cost[name]["amount"])) for name in ("rows", "unattributed"))
    return sum(parts) == Decimal(str(cost["amount"]))


def test_workers_are_paid_until_they_are_gone_and_rows_make_up_the_bill(project: Project) -> None:
    seconds = "2 if (asset, depth) == ('CCC', 4) else 0.05"  # one worker waits for the other at the end
    session(project, {"max_workers": 2, "cpu_price": EURO_A_SECOND}, seconds).run_sweep("trial")
    cost = report(project)["cost"]
    assert cost["basis"] == "workers" and adds_up(cost)
    assert (cost["rows"]["count"], cost["rows"]["units"]) == (24, 12)
    assert cost["rows"]["idle"] > 0 and cost["unattributed"]["tail"] > 0 and cost["rows"]["lost"] == 0
    machines = {one["machine"]: one["until"] for one in project.journal("machine")}
    assert set(machines) == {"small-0", "small-1"} and None not in machines.values()
    last = project.journal("cost")[-1]
    assert last["spent"]["amount"] == pytest.approx(cost["amount"], abs=1e-3), "the last sum is the bill"
    assert last["per_hour"]["amount"] == 0
    assert report(project)["plan_vs_actual"]["cost"]["actual"]["amount"] == pytest.approx(cost["amount"], abs=1e-3)


def test_where_nothing_is_charged_nothing_is_counted(project: Project) -> None:
    session(project, {"max_workers": 2}).run_sweep("trial")
    assert report(project)["cost"] is None
    assert not project.journal("tariff") and not project.journal("machine")


NODES = {"box": {"cpu": 2, "memory": "4GiB", "price": EURO_A_SECOND}}


POOLS = {"compute": {"node": "box", "max": 3, "provision": "0s", "idle": "5s"}}


class Host(VirtualLauncher):
    """Every worker has a node of its own; the first one was there for an hour when it came."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.rooms: dict[str, Node] = {}

    async def launch(self, name: str, template: WorkerTemplate, scheduler: str) -> VirtualWorker:
        since = time.time() - (0 if self.rooms else 3600)
        self.rooms[name] = Node(f"node-of-{name}", "compute", since)
        return await super().launch(name, template, scheduler)

    def nodes(self) -> Sequence[Node]:
        return list(self.rooms.values())

    def node_of(self, worker: str) -> str | None:
        return self.rooms[worker].name if worker in self.rooms else None


class Hotel(Inn):
    def __init__(self, world: World) -> None:
        self.world = world

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        return self.world.build(spec)


def at(
    world: World, monkeypatch: pytest.MonkeyPatch, launcher: type[VirtualLauncher] = Host, **sections: Any
) -> ScalableSession:
    """On a target of a provider of the user's own, whose launcher may know of nodes."""
    world.launcher = launcher
    monkeypatch.setitem(REGISTERED, "inn", lambda: Hotel(world))
    return session(world.project, {"provider": "inn"}, **{"nodes": NODES, "pools": POOLS, **sections})


def test_nodes_that_a_backend_tells_of_are_paid_from_the_start_of_the_run_until_they_go(
    project: Project, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute(at(world, monkeypatch))
    found = report(project)
    cost = found["cost"]
    assert cost["basis"] == "nodes as observed" and adds_up(cost)
    assert set(cost["pools"]) == {"compute"} and cost["pools"]["compute"]["machines"] == 2
    assert cost["amount"] < 3600, "what a node cost before the run is not the run's"
    assert cost["foreseen"] == pytest.approx(10, abs=2), "two nodes are kept for 5 s after their workers"
    assert cost["pools"]["compute"]["busy_share"] < 0.5, "one of the two CPUs of a node is used at most"
    assert cost["rows"]["count"] == 24
    spent = project.journal("cost")[-1]["spent"]["amount"]
    assert spent == pytest.approx(cost["amount"], abs=2), "the tail is in the last sum, too"
    assert {one["part"] for one in project.journal("placed")} == {0.5}
    assert any("is kept, and paid, after its last worker: 5 s" in text for text in cost["assumed"])


def test_what_a_backend_knows_better_later_replaces_what_it_said_first(
    project: Project, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = at(world, monkeypatch)
    with session:
        host = session.live().cluster.launcher
        assert isinstance(host, Host)
        began = project.journal("run-started")[0]["t"]
        first, second = list(host.rooms)[:2]
        host.rooms[first] = replace(host.rooms[first], until=began + 100)
        host.rooms[second] = replace(host.rooms[second], since=began + 50, until=began + 80)
    machines = {one["machine"]: one for one in project.journal("machine")}
    assert machines[f"node-of-{first}"]["until"] == began + 100
    assert (machines[f"node-of-{second}"]["since"], machines[f"node-of-{second}"]["until"]) == (began + 50, began + 80)
    assert report(project)["cost"]["amount"] >= 100 + 30 - 1, "a euro a second, from the start of the run"


def test_nodes_that_are_always_there_are_counted_and_not_charged(
    project: Project, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = {"compute": {**POOLS["compute"], "min": 1}}
    compute(at(world, monkeypatch, pools=pools))
    pool = report(project)["cost"]["pools"]["compute"]
    assert pool["machines"] == 2 and pool["standing_hours"] > 0 and pool["hours"] > 0
    assert sorted(one["price"] for one in project.journal("machine")) == ["0", "3600"]


def test_nodes_without_a_price_are_counted(project: Project, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {"box": {"cpu": 2, "memory": "4GiB"}}
    compute(at(world, monkeypatch, nodes=nodes))
    cost = report(project)["cost"]
    assert cost["currency"] is None and cost["pools"]["compute"]["standing_hours"] > 0


def test_nodes_are_counted_though_the_manifest_has_no_pools(
    project: Project, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute(at(world, monkeypatch, nodes={}, pools={}))
    cost = report(project)["cost"]
    assert cost["currency"] is None and cost["pools"]["compute"]["standing_hours"] > 0
    assert "the manifest has no pools: a worker counts as all of its node" in cost["assumed"]


def test_where_a_backend_says_nothing_of_nodes_workers_are_put_on_them_as_planned_and_the_report_says_so(
    project: Project, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute(at(world, monkeypatch, VirtualLauncher))
    cost = report(project)["cost"]
    assert cost["basis"] == "nodes as planned" and adds_up(cost)
    assert cost["pools"]["compute"]["machines"] == 1, "both workers fit on one"
    assert cost["assumed"][0] == "inn does not say which nodes there are: workers are put on nodes as planned"


def test_a_sweep_stops_when_the_budget_is_used_up_and_goes_on_where_it_was_when_there_is_more(project: Project) -> None:
    def run(budget: int) -> SweepOutcome:
        target = {"max_workers": 1, "cpu_price": EURO_A_SECOND}
        seconds = "0.01 if depth == 1 else 0.9"  # some are done however late the worker comes, all never
        return session(project, target, seconds, budget={"monthly": f"{budget} EUR"}).run_sweep("trial")

    def computed() -> list[str]:
        log = project.folder / "executed.log"
        return log.read_text(encoding="utf-8").split("\n")[:-1] if log.exists() else []

    first = run(KEPT + 6)
    assert not first.complete and 0 < first.finished < 24
    assert "budget of EUR 66.00" in first.stopped and first.stopped in first.why()
    assert project.ended() == ("failed", first.why())
    assert not project.workers()
    assert any("budget" in one["reason"] for one in project.journal("worker-removed"))
    assert [one["alert"] for one in project.journal("alert") if "state" not in one] == ["budget"]
    assert report(project)["cost"]["amount"] < KEPT + 6
    before = computed()
    second = run(2000)
    assert second.complete and second.computed == 24 - first.finished
    assert computed()[: len(before)] == before and len(set(computed())) == len(computed()) == 12


def test_the_engine_is_told_which_of_its_requests_the_figures_include() -> None:
    driver: Any = object.__new__(Driver)
    driver.cluster = Agency()
    driver.cluster.members = dict.fromkeys(("a-0", "a-1", "a-2"))
    driver.meter = SimpleNamespace(counts={"a-0", "a-2"}.__contains__)
    driver.requests = [("a-0", "gone"), ("a-1",), ("a-2",), None]
    assert driver.covered() == 1, "nothing is known yet of the machine of a-1"
    driver.meter.counts = {"a-0", "a-1", "a-2"}.__contains__
    assert driver.covered() == 3, "the last was not answered yet"


def test_a_pilot_spends_no_more_than_its_policy_allows(project: Project) -> None:
    target = {"max_workers": 1, "cpu_price": EURO_A_SECOND}
    bounds = {"policies": {"pilot": {"cost": f"{KEPT + 6} EUR"}}}
    pilot = session(project, target, "0.01 if depth == 1 else 0.9", **bounds).run_pilot("trial")
    assert "budget of EUR 66.00" in pilot.stopped and 0 < pilot.finished < pilot.expected
    assert report(project)["cost"]["amount"] < KEPT + 6
