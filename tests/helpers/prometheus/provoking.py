"""Every alert is provoked and calmed while a real Prometheus and Alertmanager watch; how long both took.

The rules are those that ``admin deploy prometheus`` writes, in a hundredth of their time. What can be brought about
for sure is provoked in a real session; for the rest a page shows figures that are made up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from scalable.deploy import prometheus as deployed
from scalable.deploy.grafana import dashboard
from scalable.observe.alerts import RULES, scaled
from scalable.observe.folders import runs_dir, targets_dir
from tests.helpers.prometheus.pages import Figures, Server, serving
from tests.helpers.prometheus.session import real_session
from tests.helpers.waiting import until
from tests.tools.prometheus import PrivatePrometheus

FASTER = 1 / 100
SCRAPED_S = 0.5  # a condition must be seen some times within the shortest of the durations, which is 3 s then
LOOK_S = 0.1
WITHIN_S = 60.0  # most alerts take some seconds; a hang is longer than anything a busy machine needs

TOLD = frozenset(rule.name for rule in RULES) - {"CostNearBudget"}
"""Whoever is over the budget is not told that they are near it."""

Pair = tuple[str, str]
"""An alert and the run it is about."""


class Provocation(Protocol):
    @property
    def run(self) -> str: ...

    @property
    def alerts(self) -> Mapping[str, str]:
        """What fires, and how it is brought about."""

    def provoke(self) -> None: ...

    def calm(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    alert: str
    provoked: str
    fired_s: float
    """From the provocation until Alertmanager has it."""
    resolved_s: float
    """From the end of its cause, or from its own beginning if it ends by itself, until Alertmanager has it no more."""


@dataclass(frozen=True, slots=True)
class Seen:
    outcomes: list[Outcome]
    empty_panels: list[str]
    forgotten: bool
    """The session, by Prometheus, after its end."""
    messages: list[str]
    """What people were told, in the order in which it came."""


def watched_and_provoked(folder: Path) -> Seen:
    """``folder`` is the current one."""
    watch, empty = folder / "watch", list[str]()
    watch.mkdir()
    runs = runs_dir().absolute()
    with serving() as page, serving() as slack, watched(watch, runs, slack) as servers:
        with real_session(folder) as real:

            def meanwhile() -> None:
                empty.extend(panels_without_data(servers))
                until(lambda: {told.partition(" ")[0] for told in messages(slack)} >= TOLD)

            outcomes = provoked(servers, [MadeUp(page, targets_dir(runs)), real], meanwhile)
        forgotten = until(lambda: real.run not in runs_seen(servers))
    return Seen(outcomes, empty, forgotten, messages(slack))


def messages(slack: Server) -> list[str]:
    return [f"{one['title']}\n{one['text']}" for told in slack.told for one in told["attachments"]]


@contextmanager
def watched(folder: Path, runs: Path, slack: Server) -> Iterator[PrivatePrometheus]:
    """Servers with the files that the command writes, in less time."""
    about = deployed.Monitoring(runs, folder, scaled(FASTER), every_s=SCRAPED_S, gather_s=SCRAPED_S)
    (folder / deployed.SECRET).write_text(f"http://{slack.address}/", encoding="utf-8")

    def files(alertmanager: str) -> Mapping[str, str]:
        return deployed.rendered(replace(about, alertmanager=alertmanager)).files

    with PrivatePrometheus(folder, deployed.alertmanager_file(about), files) as servers:
        yield servers


@dataclass(slots=True)
class Observation:
    """When which alert began and ended."""

    servers: PrivatePrometheus
    wanted: frozenset[Pair]
    fired: dict[Pair, float] = field(default_factory=dict)
    ended: dict[Pair, float] = field(default_factory=dict)

    def until(self, done: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not done():
            assert time.monotonic() < deadline, f"{what}; fired: {self.fired}, ended: {self.ended}"
            time.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        now = time.monotonic()
        firing = {(one["labels"]["alertname"], one["labels"].get("run", "")) for one in self.servers.alerts()}
        for pair in self.wanted & firing:
            self.fired.setdefault(pair, now)
            self.ended.pop(pair, None)
        for pair in self.fired.keys() - firing - self.ended.keys():
            self.ended[pair] = now


def provoked(
    servers: PrivatePrometheus, provocations: list[Provocation], meanwhile: Callable[[], None] = lambda: None
) -> list[Outcome]:
    """All at once; ``meanwhile`` is called when every alert has been seen firing."""
    how = {(alert, one.run): text for one in provocations for alert, text in one.alerts.items()}
    seen = Observation(servers, frozenset(how))
    runs = {one.run for one in provocations}
    seen.until(lambda: runs <= runs_seen(servers), f"Prometheus does not find {runs}")
    began = time.monotonic()
    for one in provocations:
        one.provoke()
    seen.until(lambda: seen.fired.keys() == seen.wanted, f"not all of {sorted(how)} fire")
    meanwhile()
    calmed = time.monotonic()
    for one in provocations:
        one.calm()
    seen.until(lambda: seen.ended.keys() == seen.wanted, "not all end")
    return [
        Outcome(
            pair[0],
            how[pair],
            round(seen.fired[pair] - began, 1),
            round(seen.ended[pair] - (calmed if seen.ended[pair] > calmed else seen.fired[pair]), 1),
        )
        for pair in sorted(how)
    ]


def runs_seen(servers: PrivatePrometheus) -> set[str]:
    return {one["metric"].get("run", "") for one in servers.query("scalable_session_info")}


def panels_without_data(servers: PrivatePrometheus) -> list[str]:
    """Titles and queries of the dashboard that give nothing, about all runs."""
    found = []
    for panel in dashboard()["panels"]:
        for query in panel["targets"]:
            asked = query["expr"].replace("$project", ".*").replace("$run", ".*")
            if not servers.query(asked):
                found.append(f"{panel['title']}: {asked}")
    return found


class MadeUp:
    """Alerts that would need a machine with nothing else on it, slow starts or a month's money."""

    run = "made-up"
    FIGURES: Mapping[str, Mapping[str, float]] = {
        "WorkerCpu": {"scalable_worker_cpu_cores": 0.95},
        "NodeCpu": {"scalable_node_cpu_cores": 0.9},
        "NodeMemory": {"scalable_node_memory_bytes": 0.8},
        "ScaleUpSlow": {"scalable_scale_up_seconds": 301},
        "CostNearBudget": {"scalable_cost_month_total": 0.9},
        "CostOverBudget": {"scalable_cost_month_total": 1.1},
    }

    def __init__(self, server: Server, targets: Path) -> None:
        self.figures = Figures(server, targets, self.run)
        self.alerts = {name: f"made up: {told(figures)}" for name, figures in self.FIGURES.items()}

    def provoke(self) -> None:
        for figures in self.FIGURES.values():
            self.figures.show(figures)

    def calm(self) -> None:
        self.figures.reset()


def told(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in figures.items())
