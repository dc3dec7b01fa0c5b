"""The state of a session this moment, for those who look from outside: ``live.json``, alerts, and /metrics.

Called with every look of the driver. Figures are taken every other second; the file is written by a thread, so a disk
that hangs holds up nobody, and is removed at the end. None of this is needed for a run: what fails here is told once,
and the run goes on.

/metrics is on the HTTP server that Dask's scheduler has anyway. That server listens on this machine only, unless the
manifest gives Dask's dashboard another address. What Dask itself shows at /metrics, which it does where a dashboard is
asked for, is then at /metrics/dask.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalable.findings import Finding
from scalable.manifest.policies import rules_of
from scalable.observe.fields import month
from scalable.observe.files import write_beside
from scalable.observe.folders import RunFolder
from scalable.observe.journal import text_of
from scalable.observe.liveness import is_running
from scalable.observe.metrics import METRICS
from scalable.quantities import Money
from scalable.session.operate.alerting import Alerting, Webhook
from scalable.session.operate.measures import Purse
from scalable.worker.measures import MetricsHandler

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.manifest.models import Manifest
    from scalable.planning.history import History
    from scalable.session.driver.driver import Driver

logger = logging.getLogger("scalable")

EVERY_S = 2.0  # at most so often
CLOSE_WITHIN_S = 2.0
AT_LEAST_EVERY_S = 10.0  # although nothing changed, so that a reader sees that someone is there
PATH, DASKS = "/metrics", "/metrics/dask"
LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::", "")


def live(driver: Driver, folder: RunFolder, facts: Mapping[str, Any], manifest: Manifest, past: History) -> Live:
    """Begin to show a session; ``facts`` are those of its ``run.json``."""
    measures = driver.measures
    measures.info = {name: str(facts[name]) for name in METRICS["scalable_session_info"].labels}
    if (budget := manifest.budget) is not None and budget.monthly is not None:
        currency, spent = budget.monthly.currency, past.spent_this_month
        fixed = sum((amount for amount in budget.fixed.values() if amount.currency == currency), Money.zero(currency))
        before = spent if spent is not None and spent.currency == currency else Money.zero(currency)
        measures.purse = Purse(budget.monthly, fixed, before, month(time.time()))
    webhook = None
    if (url := manifest.alerts.webhook) is not None:
        where = f"run {folder.run_id} of {facts['project']} on {facts['target']}"
        webhook = Webhook(url.get_secret_value(), where, lambda why: driver.tell(Finding.warning("webhook", "", why)))
    labels = {"run": folder.run_id, "project": str(facts["project"])}
    return Live(driver, folder, serve(driver, labels), Alerting(rules_of(manifest), driver.journal, webhook))


def forget_killed(targets: Path) -> None:
    """Remove the target files of killed sessions, which could not do it themselves."""
    for path in targets.glob("*.json"):
        if not is_running(RunFolder(targets.parent / path.stem)):
            path.unlink(missing_ok=True)


class Live:
    def __init__(self, driver: Driver, folder: RunFolder, served: Served, alerting: Alerting) -> None:
        self.driver = driver
        self.folder = folder
        self.served = served
        self.alerting = alerting
        self.epoch = time.time() - time.monotonic()
        """Alerts are timed by a clock that nobody sets: one that jumps would make them early, or late for hours."""
        self.looked = self.written = float("-inf")
        self.text = self.where = ""
        """What the two files say."""
        self.writing: asyncio.Future[None] | None = None
        self.files = threading.Lock()
        self.broken = self.complained = self.closed = False

    def __call__(self) -> None:
        now = time.monotonic()
        if self.broken or self.closed or now - self.looked < EVERY_S:
            return
        self.looked = now
        try:
            self.look(now)
        except Exception:  # a run must not suffer from what only shows it
            self.broken = True
            logger.exception("figures and alerts of this session stopped; the session goes on")

    def look(self, now: float) -> None:
        measures = self.driver.measures
        workers, nodes = measures.workers(), measures.nodes()
        self.alerting.look(measures.samples(workers, nodes), self.epoch + now)
        engine = self.driver.engine.view
        facts = {
            "paused": engine.paused or engine.braked,
            "workers": workers,
            "nodes": nodes,
            "dependencies": measures.dependencies.states(),
            "alerts": self.alerting.firing(),
            "metrics": self.served.url,
        }
        if self.writing is None or self.writing.done():
            targets = self.served.targets(self.driver.cluster)
            self.writing = asyncio.ensure_future(asyncio.to_thread(self.write, facts, targets, now))

    # In a thread

    def write(self, facts: Mapping[str, Any], targets: list[dict[str, Any]], now: float) -> None:
        try:
            text, where = text_of(facts), text_of(targets)
            with self.files:
                if self.closed:
                    return
                if where != self.where:
                    if not self.where:
                        self.folder.targets_file.parent.mkdir(exist_ok=True)
                        forget_killed(self.folder.targets_file.parent)
                    self.where = where
                    write_beside(self.folder.targets_file, f"{where}\n", private=False)  # Prometheus reads it
                if text != self.text or now - self.written >= AT_LEAST_EVERY_S:
                    self.text, self.written = text, now
                    write_beside(self.folder.live_file, f'{{"t":{time.time():.3f},{text[1:]}\n')
        except OSError as error:
            if not self.complained:
                logger.warning("%s cannot be written: %s; the run goes on", self.folder.live_file, error.strerror)
            self.complained = True

    # The end

    def close(self) -> None:
        """Remove the files: nothing is true of it any more. May be called again."""
        if self.closed:
            return
        self.closed = True
        self.alerting.close()
        if self.files.acquire(timeout=CLOSE_WITHIN_S):  # else a disk hangs; whoever reads sees how old the file is
            self.files.release()
        for path in (self.folder.live_file, self.folder.targets_file):
            with suppress(OSError):
                path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Served:
    address: str
    """Host and port, as a client on this machine reaches it."""
    labels: Mapping[str, str]

    @property
    def url(self) -> str:
        return f"http://{self.address}{PATH}"

    def targets(self, cluster: TaggedCluster) -> list[dict[str, Any]]:
        """Return the targets for Prometheus on this machine: this process, and workers that are processes of it."""
        targets = [{"targets": [self.address], "labels": {**self.labels, "role": "driver"}}]
        own_address = cluster.scheduler.ip
        ports = [
            state.services.get("dashboard")
            for member in list(cluster.members.values())
            if (state := cluster.scheduler.workers.get(member.address)) is not None
            and state.host in (own_address, LOOPBACK)
            and not str(member.address).startswith("inproc")
        ]
        if local := [f"{LOOPBACK}:{port}" for port in ports if port]:
            targets.append({"targets": sorted(local), "labels": {**self.labels, "role": "worker"}})
        return targets


def serve(driver: Driver, labels: Mapping[str, str]) -> Served:
    """Serve the figures from now on, until the scheduler closes."""
    scheduler = driver.cluster.scheduler
    application = scheduler.http_application
    dasks = [(rule.target, rule.target_kwargs) for rule in application.wildcard_router.rules if matches(rule)]
    handlers = [(DASKS, target, arguments) for target, arguments in dasks[:1]]
    application.add_handlers(".*$", [(PATH, MetricsHandler, {"samples": driver.measures.samples}), *handlers])
    host, port = scheduler.http_server.address, scheduler.http_server.port
    host = LOOPBACK if host in EVERYWHERE else host
    return Served(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", labels)


def matches(rule: Any) -> bool:
    regex = getattr(rule.matcher, "regex", None)
    return regex is not None and regex.pattern.rstrip("$") == PATH
