"""Runs to report on: one in which everything happened, one of plain tasks, one of a sweep; and pages read back."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from scalable.observe import RunFolder
from scalable.observe.incidents import Incident, IncidentFolder
from scalable.show.report.material import material_of
from scalable.show.report.page import page
from tests.helpers.observe.builders import (
    GIB,
    START,
    Record,
    a_plan,
    a_run,
    attempt,
    attempt_ended,
    closed,
    joined,
    lost,
    peaks,
    record,
    started,
    sweep_started,
    task,
    unit,
)
from tests.helpers.sweeps.gates.builders import Gains
from tests.helpers.sweeps.gates.stores import a_folder


class Read(HTMLParser):
    """What is on a page: its elements with their attributes, and the text by heading of the second level."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.sections: dict[str, list[str]] = {"": []}
        self.heading = ""
        self.feed(text)
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        if "h2" in self.open:
            self.heading = data
            self.sections[data] = []
        elif data.strip():
            self.sections[self.heading].append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)

    def said(self, section: str) -> str:
        return " ".join(" ".join(self.sections[section]).split())

    @property
    def titles(self) -> list[str]:
        return [title for title in self.sections if title]


def made(folder: RunFolder) -> str:
    """The page, made by a user who names the run's own manifest."""
    manifest = folder.facts().get("manifest")
    return page(material_of(folder, START + 100, Path(manifest) if manifest else None))


def plain_run(base: Path, *more: Record, **facts: Any) -> RunFolder:
    """Three tasks on one worker."""
    return a_run(
        base, a_plan(workers_by_tag={"demeter": 1}, resources_by_tag={"demeter": {"memory": "8GiB"}}, wall_s=60),
        record("scale", 1, direction="up", tag="demeter", count=1, reason="0 of at least 1 worker"),
        started("w1"), joined("w1"), task("first"), task("second"), task("third", ok=False), peaks(second=7 * GIB),
        *more, closed("w1"), **facts,
    )  # fmt: skip


def troubled_run(base: Path) -> RunFolder:
    """A sweep with a bill, a budget, losses, retries, incidents, findings and alerts."""
    node = {"machine": "n1", "pool": "compute", "price": "3600", "since": START, "until": START + 95, "tail_s": 0}
    folder = a_run(
        base,
        record("tariff", 0, basis="nodes as observed", currency="EUR", budget={"amount": 200, "currency": "EUR"}),
        a_plan(
            workers_by_tag={"demeter": 2}, resources_by_tag={"demeter": {"memory": "8GiB"}}, wall_s=60,
            tasks={"demeter": 2}, peaks={"demeter": "4GiB"}, cost={"amount": 60, "currency": "EUR"}, node_hours=0.02,
        ),
        record("scale", 1, direction="up", tag="demeter", count=2, reason="0 of at least 2 workers"),
        started("w1"), started("w2"), record("machine", 1, **node),
        *(record("placed", 1, worker=name, tag="demeter", machine="n1", part=0.5, slots=1) for name in ("w1", "w2")),
        joined("w1"), joined("w2", 6), sweep_started(expected=18, units=2),
        gauge(9, waiting=1, running=1, spent=9), attempt("one"), attempt("two", worker="w2"),
        lost("w2", 20, cause="out of memory", detail="8.1 GiB of 8 GiB"),
        attempt_ended("two", "out of memory", at=20, worker="w2", peak=8 * GIB),
        record("retry", 21, run="two", tag="demeter", cause="out of memory"),
        gauge(30, waiting=1, running=1, spent=30), *unit("one", at=40, peak=3 * GIB), attempt("two", 2, at=50),
        *unit("two", at=80, number=2, peak=7 * GIB, failed=1), gauge(85, waiting=0, running=0, spent=85),
        record("finding", 60, code="memory-tight", text="demeter came near its limit", remedy="write memory: 10GiB"),
        record("alert", 61, alert="WorkerMemory", state="firing", severity="warning", text="w1 uses 88 %"),
        record("alert", 70, alert="WorkerMemory", state="resolved", severity="warning", text="w1 uses 88 %"),
        record("sweep-ended", 90, sweep="calibration", status="failed", reason="1 row failed"),
        closed("w1"),
    )  # fmt: skip
    evidence = {"stacks": [{"pid": 7, "thread": "MainThread", "active": True, "frames": ["fit at model.py:12"]}]}
    told = {"worker": "w2", "tag": "demeter", "started": START + 20, "guilty": "fit in model.py:12"}
    incident = Incident("out of memory", run="two", **told, evidence=evidence, done=("killed",), severity="warning")  # type: ignore[arg-type]
    IncidentFolder(folder.path).open(incident)
    return folder


def gauge(at: float, *, waiting: int, running: int, spent: float) -> Record:
    tasks = {"demeter": {"waiting": waiting, "running": running, "done": 0, "failed": 0}}
    return record("gauge", at, workers={}, tasks=tasks, cost={"amount": spent, "currency": "EUR"})


def sweep_run(path: Path, gains: Gains | None = None, **options: Any) -> RunFolder:
    """A run of the made-up calibration sweep in this folder, with its rows in the store."""
    a_folder(path, gains, **options)
    return run_of(path)


def run_of(path: Path, sweep: str = "calibration") -> RunFolder:
    facts: dict[str, Any] = {"manifest": str(path / "scalable.yaml"), "cwd": str(path), "command": ["scalable", "run"]}
    target = {"target": "local", "provider": "local"}
    records = (started("w1"), joined("w1"), sweep_started(sweep, expected=150, units=1), *unit("one", rows=150))
    folder = a_run(path / "runs", *records, closed("w1"), **facts)
    folder.write_run({**folder.facts(), **target})
    return folder
