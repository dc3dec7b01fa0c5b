"""``ScalableSession``: a manifest and a target become a live cluster, a client, and a record of what happened."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from scalable.cluster.base import (
    ClusterHandle,
    DeploymentProvider,
    DeploymentSpec,
    LaunchRefused,
    ProviderError,
    Tenant,
    ask_provider,
    get_provider,
)
from scalable.cluster.client import ScalableClient
from scalable.cluster.cluster import TaggedCluster
from scalable.engine import AdaptiveScaler, Engine, ScaleDecision
from scalable.errors import PlanningError, ScalableError, UsageError
from scalable.manifest import Loaded, ManifestError, ValidationReport, load_file
from scalable.manifest.targets import installed_providers
from scalable.observe.folders import RunFolder, find_manifest, runs_dir
from scalable.observe.history import learn
from scalable.observe.journal import Journal, read
from scalable.observe.liveness import state_of
from scalable.observe.report import report_of
from scalable.observe.view import RunView
from scalable.planning.campaign import plan_all
from scalable.planning.components import plan_components, task_s
from scalable.planning.front import Choice
from scalable.planning.pins import sizes_of
from scalable.planning.plan import Plan, budget_left, plan_sweep
from scalable.planning.resources import Origin
from scalable.planning.rules import rules_for
from scalable.planning.site import Site, needed_tags
from scalable.quantities import Money
from scalable.session.driver import tasks
from scalable.session.driver.diagnosis import SessionObserver
from scalable.session.driver.driver import Driver
from scalable.session.driver.recorder import record
from scalable.session.driver.records import AnyPlan, EventLog, ending, planned, started
from scalable.session.machine import history, site_of
from scalable.session.money.accounts import Others, catch_up
from scalable.session.money.hours import Allowance, allowance_of, raise_budget
from scalable.session.money.tariffs import tariff_of
from scalable.session.operate.live import live
from scalable.session.operate.rollback import PinScope, pin_of
from scalable.store import Store
from scalable.store.caching.cache import DEFAULT_FOLDER
from scalable.sweeps.loading import artefacts_url, open_results, store_url
from scalable.wording import shown

if TYPE_CHECKING:
    from scalable.observe.drivers import DriverFolder
    from scalable.planning.history import History
    from scalable.session.sweep.outcomes import SweepOutcome
    from scalable.sweeps.compiling import Compiled
    from scalable.sweeps.workload import Workload

logger = logging.getLogger("scalable")

SCRATCH = ".scalable/scratch"  # below the project's folder
SEE_THIS_FOLDER = ("local", "slurm")  # providers whose workers share the file system of the driver
START_WITHIN_S = 120.0  # workers of this machine that are not there by then will not come


class ScalableSession:
    """Use as ``with session as client``, or ``start()`` and ``close()``.

    ``close`` may be called from any thread, any number of times, and is called at the end of the process at the latest.
    """

    _open: ClassVar[weakref.WeakSet[ScalableSession]] = weakref.WeakSet()
    _shared: ClassVar[ScalableSession | None] = None
    """The session that ``scalable run`` opened for a workflow script."""

    def __init__(self, loaded: Loaded, path: Path) -> None:
        self.pin = pin_of(PinScope.of(path, loaded.target))
        """What a rollback holds fast."""
        self.manifest = self.pin.applied(loaded.manifest) if self.pin is not None else loaded.manifest
        self.manifest_digest = loaded.digest
        self.target = loaded.target
        self.path = path
        self.origin = Origin(str(path.resolve()), loaded.target)
        """What its plans are for; others are not taken."""
        self.report = loaded.report
        self.run: RunFolder | None = None
        self.client: ScalableClient | None = None
        self.cluster: ClusterHandle | None = None
        self.driver: Driver | None = None
        self.failing: dict[tuple[str, frozenset[tuple[str, str]]], str] = {}
        """By sweep and the axis values that rows were chosen by: why it is not complete, though nothing was raised."""
        self.workloads: dict[str, Workload] = {}
        """Workloads of sweeps that are not found by name, since they are a script's or a notebook's own."""
        self.detached: DriverFolder | None = None
        """The record of this process as a detached driver, if it is one."""
        self.most: Money | None = None
        """What it may spend, besides what is left of the budget."""
        self._journal: Journal | None = None
        self._end_cluster: Callable[[], None] | None = None
        self._lock = threading.RLock()
        self._owner = True
        self._process = os.getpid()

    def __repr__(self) -> str:
        where = f" on {self.target}" if self.target is not None else ""
        state = "running" if self.client is not None else "not running"
        return f"<ScalableSession {self.manifest.project.name}{where}, {state}>"

    @classmethod
    def from_yaml(cls, path: str | Path | None = None, *, target: str | None = None) -> ScalableSession:
        """Read a manifest: the one named, else ``SCALABLE_MANIFEST``, else ``scalable.yaml`` here or above."""
        file = find_manifest(path)
        asked = target or os.environ.get("SCALABLE_TARGET") or None
        live = cls._shared
        if live is not None and file.resolve() == live.path.resolve() and asked in (None, live.target):
            return live
        return cls(load_file(file, env=os.environ, target=asked, providers=installed_providers()), file)

    @property
    def provider(self) -> DeploymentProvider:
        return get_provider(self.spec().target.provider)

    def spec(self, run_folder: Path | None = None, apart: Collection[str] = ()) -> DeploymentSpec:
        folder = str(self.path.resolve().parent)
        home = str(run_folder) if run_folder else None
        return DeploymentSpec.from_manifest(
            self.manifest, target_name=self.target, folder=folder, run_folder=home, apart=apart
        )

    def site(self) -> Site:
        """Where its work runs, for planning."""
        return site_of(self.manifest, self.target, self.path.resolve().parent, self.pin, self.workloads.values())

    def validate(self) -> ValidationReport:
        """What is wrong or questionable in the manifest, and what the target's provider says of it."""
        return self._validate(needed_tags(self.manifest, {}))

    def _validate(self, tags: Collection[str]) -> ValidationReport:
        """Ask the provider about the kinds of workers that are needed; one that nobody uses keeps nothing from it."""
        return self.report + ask_provider(self.manifest, self.spec().only(tags), self.report)

    def plan(self, *, dry_run: bool = False, objective: str | None = None, policy: str | None = None) -> AnyPlan:
        """How many workers of each kind. Nothing is started by planning, with or without ``dry_run``."""
        site, past = self.site(), self.history()
        if self.manifest.components:
            shared = plan_components(site, self.target, objective=objective, policy=policy, history=past)
            return replace(shared, origin=self.origin)
        if not self.manifest.sweeps:
            raise PlanningError("there is nothing to plan: the manifest has neither sweeps nor components")
        return replace(plan_all(site, Choice.of(objective, policy), past), origin=self.origin)

    def start(self, plan: AnyPlan | None = None, *, adaptive: bool | AdaptiveScaler | None = None) -> ScalableClient:
        """Build the cluster, ask for the planned workers and give a client.

        ``adaptive`` scales while it runs: by the target's bounds (the default if it has some), by the plan's counts as
        a maximum (``True``), by a scaler of your own, or not at all (``False``).
        """
        if not isinstance(plan, AnyPlan | None):
            raise UsageError(f"start({shown(plan)}): give it a plan, as session.plan() makes it, or nothing")
        if plan is not None and plan.origin not in (None, self.origin):
            raise UsageError(
                f"this plan is for {plan.origin}, the session for {self.origin}; plan again with session.plan()"
            )
        with self._lock:
            if self.client is not None:
                if plan is not None:
                    self.scale(plan.scale_plan.workers_by_tag, "another plan was given")
                return self.client
            chosen = plan if plan is not None else self.plan()
            try:
                return self._start(chosen, adaptive)
            except BaseException as error:
                self.close(*ending(error))
                raise

    def _start(self, plan: AnyPlan, adaptive: bool | AdaptiveScaler | None) -> ScalableClient:
        provider = self.provider
        if not (report := self._validate(plan.scale_plan.workers_by_tag)).ok:
            raise ManifestError(report)
        self.failing = {}
        self.run = run = RunFolder.create(self.manifest.project.name, runs_dir(manifest=self.path))
        self._open.add(self)
        spec = self.spec(run.path, plan.scale_plan.apart)
        journal = self._journal = Journal(run.journal)
        atexit.unregister(journal.close)  # this session closes it, after the end was written
        facts = started(self, spec)
        if self.detached is not None:
            facts["driver"] = self.detached.drives(run)
        run.write_run(facts)
        journal.write("run-started", **facts)
        journal.write("plan", **planned(plan), sizes=sizes_of(self.manifest))
        self.cluster = provider.build_cluster(spec)
        self._end_cluster = partial(provider.close, self.cluster)
        cluster = self.cluster.backend
        if not isinstance(cluster, TaggedCluster):
            raise ProviderError(
                f"the provider {provider.name} built a {type(cluster).__name__}, which a session cannot use; "
                "give a launcher of your own to scalable.cluster.cluster.TaggedCluster and hand out that"
            )
        way_in = {key: value for key, value in self.cluster.metadata.items() if key == "certificates"}
        run.write_run(facts | {"scheduler": cluster.scheduler_address} | way_in)
        recorder = record(cluster, journal)
        site = self.site()
        tariff = tariff_of(provider, spec, plan.scale_plan, site, cluster.launcher)
        if tariff is not None:
            others = Others(run, tariff.currency)
            tariff = tariff.within(self.money_left(site, others), others)
        allowance = self.hours_left(site)
        money, hours = tariff.budget if tariff else None, allowance.budget
        rules = rules_for(site, plan.scale_plan, adaptive=adaptive, budget=money, allocation=hours)
        self.driver = Driver(
            cluster,
            Engine(rules),
            journal,
            recorder,
            run,
            tariff=tariff,
            allowance=allowance if hours is not None or isinstance(cluster.launcher, Tenant) else None,
            scaler=adaptive if isinstance(adaptive, AdaptiveScaler) else None,
        )
        self.driver.recording = EventLog(run.events, self.driver.engine.view.rules)
        self.driver.on_look = SessionObserver(self.driver)
        self.driver.live = live(self.driver, run, facts, self.manifest, self.history())
        cluster.sync(self.driver.begin)
        self._settle(self.driver)
        self.client = self.cluster.client_factory()
        self.client.guards_all = self.manifest.policies.guard == "all"
        return self.client

    def money_left(self, site: Site, others: Others) -> Money | None:
        """What may be spent from now on, where something costs and the manifest has a budget in that money."""
        most = self.most if self.most is not None and self.most.currency == others.currency else None
        monthly = self.manifest.budget.monthly if self.manifest.budget else None
        if monthly is None or others.currency != monthly.currency:
            return most
        catch_up(self.folder)
        left = budget_left(site, self.history())
        assert left is not None, "there is a budget"
        left -= others.before
        if left.amount <= 0:
            raise PlanningError(f"nothing is left of this month's budget of {monthly}; raise budget.monthly to start")
        return left if most is None else min(left, most, key=lambda money: money.amount)

    def hours_left(self, site: Site) -> Allowance:
        """What may be used of the allocation from now on, by the manifest's budget and the account's balance."""
        if site.allocation is None:
            return Allowance()
        catch_up(self.folder)
        return allowance_of(site, self.history(), Others(self.folder, ""))

    @property
    def folder(self) -> RunFolder:
        """Where the journal, the logs and the report of this run are."""
        if self.run is None:
            raise UsageError("the session was not started yet")
        return self.run

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Let a script get this session from ``from_yaml``; whoever opened it closes it, with the script's true end."""
        ScalableSession._shared, self._owner = self, False
        try:
            yield
        finally:
            ScalableSession._shared, self._owner = None, True

    # While it runs

    def scale(self, workers_by_tag: Mapping[str, int], reason: str = "asked for") -> None:
        """From now on exactly so many workers of these tags."""
        driver = self.live()
        for tag, count in workers_by_tag.items():
            driver.cluster.template(tag)
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise UsageError(f"{tag}: {count!r} workers; write a whole number from 0")
        driver.cluster.sync(driver.set_counts, dict(workers_by_tag), reason)
        self._settle(driver)

    def apply(self, decision: ScaleDecision) -> None:
        """Carry out what an ``AdaptiveScaler`` decided."""
        driver = self.live()
        driver.cluster.sync(driver.follow, decision)
        self._settle(driver)

    def run_tasks(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Run the manifest's tasks (all that say what to run, or these and what they need); results by task."""
        todo = tasks.chosen(self.manifest.tasks, names)
        driver = self.live()
        history = self.history()
        lengths = {name: task_s(name, task, history) for name, task in todo.items()}
        with self.open_store() as store:
            results: dict[str, Any] = driver.cluster.sync(
                tasks.run_tasks, driver, todo, store, history.peaks, self.task_folders(), lengths
            )
        return results

    def compile(self, sweep: str, store: Store, where: Mapping[str, str] | None = None) -> Compiled:
        """Return a sweep's rows with their keys, all or those with some values of axes, on top of what is locked."""
        from scalable.sweeps.compiling import compiled
        from scalable.sweeps.loading import importable

        with importable(self.path.resolve().parent):
            whole = compiled(self.manifest, sweep, store.config().base_env, self.workloads.get(sweep))
        return whole.of(where) if where else whole

    def run_sweep(
        self, name: str, plan: Plan | None = None, *, tell: Callable[[str], None] = logger.warning,
        watched: Callable[[RunFolder], AbstractContextManager[object]] = nullcontext, asset: str | None = None,
        holder: str = "", where: Mapping[str, str] | None = None,
    ) -> SweepOutcome:  # fmt: skip
        """Compute what the store lacks of a sweep; the outcome is what the store has then.

        A session that was not started is, once the sweep may run among those of other processes, and is closed again;
        not at all if nothing is missing. ``tell`` hears why it waits, ``watched`` is entered while it runs. With
        ``where={"dataset": "wine"}`` only rows with these values of axes are computed and expected; ``asset`` is a
        short form of it. Processes that name the same ``holder`` are one sweep to others, and what failed under it is
        not tried again.
        """
        from scalable.session.sweep.running import run_sweep

        chosen = {**(where or {}), **({"asset": asset} if asset is not None else {})}
        return run_sweep(self, name, plan, tell, watched, chosen, holder)

    def run_pilot(
        self, name: str, *, tell: Callable[[str], None] = logger.warning,
        watched: Callable[[RunFolder], AbstractContextManager[object]] = nullcontext,
    ) -> SweepOutcome:  # fmt: skip
        """Measure one job of each distinct cost of a sweep, within ``policies.pilot``, so that plans rest on it.

        Rows that it computes are stored and not computed again. The outcome tells of its own rows only.
        """
        from scalable.session.sweep.piloting import run_pilot
        from scalable.session.sweep.running import run_sweep

        return run_pilot(self, name, lambda session: run_sweep(session, name, None, tell, watched, pilot=True))

    def judge(self, sweep: str, where: Mapping[str, str], why: str) -> None:
        """Note why a sweep is not complete, or that it is; what is true of some rows is true of those among them."""
        chosen = frozenset(where.items())
        self.failing = {of: reason for of, reason in self.failing.items() if of[0] != sweep or not chosen <= of[1]}
        if why:
            self.failing[sweep, chosen] = why

    def plan_sweep(self, name: str, *, objective: str | None = None, policy: str | None = None) -> Plan:
        """What one sweep needs here."""
        plan = plan_sweep(self.site(), name, Choice.of(objective, policy), self.history())
        return replace(plan, origin=self.origin)

    @contextmanager
    def opened(self, plan: AnyPlan, most: Money | None = None) -> Iterator[Driver]:
        """Start the session and close it again, if it is not running; it may spend ``most`` at most."""
        if self.client is not None:
            yield self.live()
            return
        self.most = most
        self.start(plan)
        try:
            yield self.live()
        except BaseException as error:
            self.close(*ending(error))
            raise
        self.close()

    @property
    def store_url(self) -> str:
        return store_url(self.manifest)

    def open_store(self) -> Store:
        return open_results(self.manifest)

    def artefacts(self) -> str:
        """Where results of stages are kept, the same for every worker."""
        return artefacts_url(self.manifest)

    def task_folders(self) -> tasks.TaskFolders:
        """Where workers keep results and outputs of tasks, in the project's folder where they see it."""
        named = self.manifest.project.local_cache
        if self.spec().target.provider not in SEE_THIS_FOLDER:
            return tasks.TaskFolders(named)
        folder = self.manifest.folder.absolute()
        cache = folder / Path(named or DEFAULT_FOLDER).expanduser()
        return tasks.TaskFolders(str(cache), str(folder), str(folder / SCRATCH))

    def history(self) -> History:
        """What earlier runs of this project measured."""
        return history(self.path)

    def _settle(self, driver: Driver) -> None:
        """Until workers that were asked for were accepted, or on this machine, which starts them at once, are there."""
        before = len(driver.refusals)
        driver.cluster.sync(driver.settled)
        if stopped := driver.engine.view.braked:
            raise PlanningError(f"{stopped}; {raise_budget(self.manifest)}")
        if self.spec().target.provider == "local":
            wanted = {tag: kind.minimum for tag, kind in driver.engine.view.tags.items()}
            driver.cluster.wait_until(wanted, START_WITHIN_S)
        if len(driver.refusals) > before or (self.client is None and driver.refusals):
            raise LaunchRefused(driver.refusals[-1])

    def live(self) -> Driver:
        if self.driver is None:
            raise UsageError("the session is not running; call start() or use it with  with")
        return self.driver

    # The end

    def close(self, status: str = "ok", reason: str = "") -> None:
        """End workers, jobs and scheduler, write the report, learn for the next plan. May be called again.

        What lacks rows of its sweeps did not end well, whoever says so.
        """
        if not self._owner or os.getpid() != self._process:  # a forked child has nothing of what it would close
            return
        if status == "ok" and self.failing:
            status, reason = "failed", "; ".join(self.failing.values())
        with self._lock:
            driver, client, end_cluster, journal = self.driver, self.client, self._end_cluster, self._journal
            self.driver = self.client = self.cluster = self._end_cluster = self._journal = None
            self._open.discard(self)
            with ExitStack() as ends:  # the last first; each is done whatever becomes of those before
                if journal is not None:
                    ends.callback(self.conclude)
                    ends.callback(journal.close)
                    ends.callback(journal.write, "ended", status=status, reason=reason)
                if end_cluster is not None:
                    ends.callback(end_cluster)
                if client is not None:
                    ends.callback(client.close)
                if driver is not None:
                    ends.callback(self.rest, driver)

    @staticmethod
    def rest(driver: Driver) -> None:
        with suppress(UsageError):  # the cluster was closed already, by whoever had it
            driver.cluster.sync(driver.close)
        for shown_to in (driver.on_look, driver.live, driver.recording):
            if shown_to is not None:
                shown_to.close()

    def conclude(self) -> None:
        """What is left of a run: its report, and what the next plan can learn from it."""
        assert self.run is not None
        view = RunView.of(read(self.run.journal))
        try:
            self.run.write_report(report_of(view, state_of(view), time.time()))
            learn(self.run.path.parent, view)
        except ScalableError as error:  # a full disk or a spoilt history: the run itself is over and in its journal
            logger.warning("%s", error)

    def __enter__(self) -> ScalableClient:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(*ending(error))


@atexit.register
def close_all() -> None:
    """Sessions a script left open; the interpreter remembers whether it ended with an error."""
    for session in list(ScalableSession._open):
        session.close(*ending(getattr(sys, "last_value", None)))
