"""What a session pays is counted while it runs, adds up when it is over, and stops it when the budget is used up."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalable.cluster.base import WorkerTemplate
from scalable.engine import Rules, WorkerKind
from scalable.engine.events import Instruction, KillRun, Run, RunState, SpendChanged, Sweep, SweepKind
from scalable.observe.journal import Journal
from scalable.planning.placement import PoolRoom
from scalable.planning.resources import Size
from scalable.planning.simulation import simulate
from scalable.planning.simulation.cluster import ModelPool
from scalable.planning.simulation.durations import Fixed
from scalable.quantities import Cpu, Memory, Money
from scalable.session.costs import WorkerMeter
from scalable.session.driver import Driver
from scalable.session.tariffs import Tariff, in_one_currency


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
    tariff = Tariff("workers", "EUR", {"a": Money.parse("3600 EUR")}, hired)
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


def test_amounts_of_two_currencies_are_never_added_up() -> None:
    prices = {"a": Money.parse("1 EUR"), "b": Money.parse("2 USD"), "c": Money.parse("3 EUR")}
    kept, said = in_one_currency(prices)
    assert list(kept) == ["a", "c"]
    assert said == ("not counted beside EUR: b, USD 2.00 an hour",)


def simulated(runs: tuple[Run, ...], budget: str) -> tuple[list[Instruction], dict[RunState, int], Money]:
    """Runs of 10 minutes, of which nobody knew how long they take, on nodes of 4 workers that cost EUR 1 an hour."""
    size, price = Size(Cpu.of(1), Memory.of_gib(1)), Money.parse("1 EUR")
    node = Size(Cpu.of(4), Memory.of_gib(8))
    room = PoolRoom("compute", node, 2, {"small": size}, price=price, idle_s=600)
    kinds = {"small": WorkerKind("small", "compute", Memory.of_gib(2))}
    told: list[Instruction] = []
    outcome = simulate(
        Rules(kinds, {"compute": room}, budget=Money.parse(budget)), {"compute": ModelPool(room, cpus=4.0)},
        [Sweep("a", SweepKind.NORMAL, runs, 4)], caps={"small": 1.0}, durations={"a": Fixed(600)},
        journal=lambda now, event, instructions: told.extend(instructions),
    )  # fmt: skip
    return told, outcome.states, outcome.cost({"compute": price}, "EUR")


def test_in_the_simulated_world_the_same_brake_starts_nothing_more_and_lets_what_runs_end() -> None:
    runs = tuple(Run(f"a/{number}", "a", "small") for number in range(40))
    told, states, paid = simulated(runs, "1 EUR")
    assert states[RunState.FINISHED] == 16 and states[RunState.STOPPED] == 24
    assert not [one for one in told if isinstance(one, KillRun)], "what the money does not cover is not begun"
    assert paid.amount <= 1
    _, rest, _ = simulated(runs[16:], "5 EUR")
    assert rest == {RunState.FINISHED: 24}


def test_the_engine_is_told_which_of_its_requests_the_figures_include() -> None:
    driver: Any = object.__new__(Driver)
    driver.cluster = Agency()
    driver.cluster.members = dict.fromkeys(("a-0", "a-1", "a-2"))
    driver.meter = SimpleNamespace(counts={"a-0", "a-2"}.__contains__)
    driver.requests = [("a-0", "gone"), ("a-1",), ("a-2",), None]
    assert driver.covered() == 1, "nothing is known yet of the machine of a-1"
    driver.meter.counts = {"a-0", "a-1", "a-2"}.__contains__
    assert driver.covered() == 3, "the last was not answered yet"
