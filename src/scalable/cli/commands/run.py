"""``scalable run``: a sweep, the manifest's tasks, or a workflow script with a live session.

Its exit status is the truth: a sweep that lacks rows has failed.
"""

from __future__ import annotations

import argparse
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Self

from scalable.axes import count
from scalable.cli import context, progress
from scalable.cli.main import safe_streams
from scalable.cli.operating import agreed
from scalable.cli.output import console, errors, facts, note, print_json, print_traceback, working
from scalable.errors import PlanningError, UsageError
from scalable.manifest import Loaded
from scalable.manifest.models import Manifest, Task
from scalable.manifest.targets import LocalTarget
from scalable.observe import RunFolder, RunView, read, runs_dir
from scalable.planning.loads import route
from scalable.quantities import Duration
from scalable.session.driver.tasks import as_json, chosen
from scalable.session.money.hours import raise_budget
from scalable.session.operate.detaching import HandedOver, detach, driving, own_folder
from scalable.session.session import ScalableSession
from scalable.session.sweep.outcomes import SweepOutcome
from scalable.store.urls import shown_url
from scalable.wording import command, plural, undefined

ENDING = (signal.SIGTERM, signal.SIGHUP)
LONGEST = 400  # characters of a task's result that are shown to people
WORTH_A_PILOT_S = 300.0  # a shorter sweep is its own pilot


class Stopped(KeyboardInterrupt):
    """A signal asked this process to end: what Ctrl-C is at a terminal, from ``kill`` or a batch system."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.status = 128 + signum


def run(options: argparse.Namespace) -> int:
    if sum(bool(given) for given in (options.workflow, options.tasks, options.sweep)) > 1:
        raise UsageError("name a sweep, tasks or a workflow, not several of them")
    if options.workflow is not None:
        check_script(options.workflow)
    elif options.rest:
        raise UsageError(f"{options.rest[0]}: what follows -- is for a script; name it: --workflow F.py")
    loaded = context.load(options)
    sweep = options.sweep or (None if options.workflow or options.tasks else only_sweep(loaded.manifest))
    check_sweep(loaded.manifest, sweep)
    if sweep is None:
        check_about_sweeps(options)
    elif options.here:
        loaded = on_this_machine(options, loaded, sweep)
    elif options.profile:
        raise UsageError("--profile goes with --here; the manifest says it for all targets: sweeps.S.profile")
    if options.dry_run:
        from scalable.cli.commands.plan import planned

        options.seed = options.output = None  # which only the plan's own command takes
        return planned(options, loaded, sweep)
    if options.detach:
        return detached(options, loaded)
    session = ScalableSession(loaded, context.manifest_path(options.manifest))
    driver = own_folder()
    if session.pin is not None:
        errors().print(f"workers are {session.pin.note}", soft_wrap=True)
    try:
        with orderly_end(), driving(driver, session, lambda text: errors().print(text, soft_wrap=True)):
            if sweep is not None:
                return run_sweep(session, sweep, options)
            return run_tasks(session, options) if options.workflow is None else run_workflow(session, options)
    except BaseException as error:
        if session.run is not None:
            conclude(session.run, "job" if sweep is not None else "task")
            if sweep is not None:
                errors().print(f"rows that are there stay: {command('run', sweep)}  goes on from them", soft_wrap=True)
        if isinstance(error, Stopped):
            return error.status
        if isinstance(error, HandedOver):  # the successor's end is the truth
            return 0
        raise


def detached(options: argparse.Namespace, loaded: Loaded) -> int:
    """Start the driver so that it outlives this shell, and say how to find it."""
    from scalable.cli.drivers import show_driver

    manifest = loaded.manifest
    target = manifest.targets.get(loaded.target or "")
    with working("starting the driver"):
        runs = runs_dir(manifest=context.manifest_path(options.manifest))
        folder = detach(options.arguments, target, manifest.project.name, runs)
    show_driver(folder, options.format)
    return 0


@contextmanager
def orderly_end() -> Iterator[None]:
    """Let the signals that end a process end the run as Ctrl-C does: workers closed, its end in its journal."""

    def stop(signum: int, _: object) -> None:
        raise Stopped(signum)

    before = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:  # nohup ignores one, and that is meant
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_script(path: str) -> None:
    """Complain about a script before anything is started for it."""
    try:
        source = Path(path).read_bytes()
    except FileNotFoundError:
        raise UsageError(f"there is no workflow {path}") from None
    except OSError as error:
        raise UsageError(f"the workflow {path} cannot be read: {error.strerror}") from None
    try:
        compile(source, path, "exec")
    except (SyntaxError, ValueError) as error:
        cause = "".join(traceback.format_exception_only(error)).strip()
        raise UsageError(f"the workflow {path} is no Python script:\n{cause}") from None


def check_sweep(manifest: Manifest, sweep: str | None) -> None:
    """Complain about a sweep that there is not, and say what may have been meant."""
    if sweep is None or sweep in manifest.sweeps:
        return
    if sweep in manifest.tasks:
        raise UsageError(f"{sweep} is a task; write  {command('run', '--task', sweep)}")
    raise UsageError(undefined("sweep", sweep, manifest.sweeps))


def check_about_sweeps(options: argparse.Namespace) -> None:
    about_sweeps = {
        "--asset": options.asset, "--where": options.where, "--here": options.here, "--holder": options.holder,
        "--pilot": options.pilot, "--profile": options.profile, "--fresh": options.fresh,
    }  # fmt: skip
    for name, given in about_sweeps.items():
        if given:
            raise UsageError(f"{name} is about a sweep; name one: {command('run', 'SWEEP', name)}")


def on_this_machine(options: argparse.Namespace, loaded: Loaded, sweep: str) -> Loaded:
    """One worker here instead of those of the target, of which all else holds: what a pod for a part has room for.

    A run that is out of memory has no larger profile to go to: the machine, or the pod, is as large as its own.
    """
    if sweep not in loaded.manifest.sweeps:
        raise UsageError(undefined("sweep", sweep, loaded.manifest.sweeps))
    target = loaded.target or "here"
    targets = {**loaded.manifest.targets, target: LocalTarget(provider="local", max_workers=1, processes=True)}
    profile = (
        options.profile
        or route(context.site(options, loaded), sweep, context.history(context.manifest_path(options.manifest))).profile
    )
    sized = context.with_profile(loaded, sweep, profile).manifest
    only = {"profiles": {profile: sized.profiles[profile]}, "sweeps": {sweep: sized.sweeps[sweep]}}
    return replace(loaded, manifest=sized.model_copy(update={"targets": targets, **only}), target=target)


def only_sweep(manifest: Manifest) -> str | None:
    """Return the sweep that is meant where nothing is named: the only one of a manifest without tasks to run."""
    if any(task.run is not None for task in manifest.tasks.values()):
        return None
    names = list(manifest.sweeps)
    if len(names) > 1:
        raise UsageError(
            f"the manifest has several sweeps; name one: {command('run', names[0])}  (also {', '.join(names[1:])})"
        )
    return names[0] if names else None


def run_sweep(session: ScalableSession, name: str, options: argparse.Namespace) -> int:
    """Compute what the store lacks, then show what it has: results, decision, and where they are."""
    if options.fresh and not forgotten(session, name, options):
        return 1
    if options.pilot:
        pilot(session, name)
    with Waiting("getting ready") as waiting:
        plan = session.plan_sweep(name, objective=options.objective, policy=options.policy)
        if not options.pilot and not plan.measured and plan.wall_s > WORTH_A_PILOT_S:
            offer = f"planned at {Duration(plan.wall_s)}, but nothing was measured yet"
            waiting.tell(f"{offer}: {command('plan', name, '--pilot')}  runs a few jobs and plans from them")
        if plan.over_budget and not options.over_budget:
            rests = (plan.budget_left, plan.allocation_left)
            some = all(rest.amount > 0 for rest in rests if rest is not None)
            more = f"{raise_budget(session.manifest)} to run it"
            remedy = "--over-budget  runs it until that is used up" if some else more
            raise PlanningError(f"{name}: {plan.over_budget_text}; {remedy}")
        outcome = session.run_sweep(
            name,
            plan,
            watched=waiting.over,
            tell=waiting.tell,
            where=context.chosen(options),
            holder=options.holder or "",
        )
    run_id = session.run.run_id if session.run is not None else None
    if options.format == "json":
        print_json({"run_id": run_id, "sweep": name, **outcome.to_dict()})
    else:
        show_outcome(session, outcome, context.chosen(options))
    if session.run is not None:
        conclude(session.run, "job")
    return 0 if outcome.complete else 1


def forgotten(session: ScalableSession, name: str, options: argparse.Namespace) -> bool:
    """Let the finished rows of a sweep count no longer, so that they are computed again; return whether to go on."""
    from scalable.store.marking import mark_rows

    if options.asset is not None:
        raise UsageError("--fresh computes the whole sweep again; leave out --asset")
    with session.open_store() as store:
        there = store.find(session.compile(name, store, None).where)
        rows = [row for row in there.values() if row.finished]
        question = f"compute {plural(len(rows), 'finished row')} of {name} again, with every stage?"
        if rows and not agreed(question, options.yes, "say --yes to compute them again without being asked"):
            errors().print("nothing was changed")
            return False
        if rows:
            mark_rows(store, rows, name, "computed again with --fresh")
    return True


def pilot(session: ScalableSession, name: str) -> None:
    """Run a pilot and say what it measured."""
    with Waiting("getting ready") as waiting:
        outcome = session.run_pilot(name, watched=waiting.over, tell=waiting.tell)
    if not outcome.computed:
        text = "nothing to measure: its rows are there" if outcome.complete else "no job ended in the pilot's time"
    else:
        text = f"{plural(outcome.computed, 'row')} measured in {Duration(outcome.seconds)}"
        text += f", {len(outcome.failed)} failed: {outcome.why()}" if outcome.failed else ""
    errors().print(f"pilot of {name}: {text}", soft_wrap=True)


class Waiting:
    """A spinner wherever a sweep's own progress is not shown: before its workers are there, and while they are closed.

    ``tell`` may be called from any thread, also while progress is shown.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.spinner = ExitStack()
        self.running = False

    def __enter__(self) -> Self:
        self.spin(self.what)
        return self

    def __exit__(self, *_: object) -> None:
        self.spinner.close()

    def spin(self, what: str) -> None:
        self.spinner.close()
        self.spinner.enter_context(working(what))

    def tell(self, what: str) -> None:
        self.spinner.close()
        errors().print(what, soft_wrap=True)
        if not self.running:
            self.spin("waiting")

    @contextmanager
    def over(self, folder: RunFolder) -> Iterator[None]:
        """While progress is shown instead."""
        self.running = True
        self.spinner.close()
        with progress.progress_shown(folder):
            yield
        self.running = False
        self.spin("closing workers")


def run_tasks(session: ScalableSession, options: argparse.Namespace) -> int:
    todo = chosen(session.manifest.tasks, options.tasks or None)  # complain before anything starts
    with session, progress.progress_shown(session.folder):
        results = session.run_tasks(list(todo))
    results = {name: results[name] for name in todo}  # in the manifest's order, whichever came first
    if options.format == "json":
        content = {name: as_json(value) for name, value in results.items()}
        print_json({"run_id": session.folder.run_id, "results": content})
    else:
        console().print(facts([(name, task_text(todo[name], value)) for name, value in results.items()]))
        conclude(session.folder)
    return 0


def run_workflow(session: ScalableSession, options: argparse.Namespace) -> int:
    """Run the script as ``__main__``; ``ScalableSession.from_yaml`` gives it this session."""
    with working("starting workers"):
        session.start()
    folder = session.folder
    status, reason, code = "ok", "", 0
    process = os.getpid()
    before, path, streams = sys.argv, list(sys.path), (sys.stdout, sys.stderr)
    sys.argv = [options.workflow, *options.rest]
    sys.path.insert(0, str(Path(options.workflow).resolve().parent))
    try:
        with session.shared(), progress.progress_shown(folder):
            runpy.run_path(options.workflow, run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if not isinstance(stop.code, int | None):
            errors().print(str(stop.code), markup=False, soft_wrap=True)
        status, reason = ("failed", f"exit status {code}") if code else ("ok", "")
    except KeyboardInterrupt as stop:
        code = 0 if isinstance(stop, HandedOver) else getattr(stop, "status", 130)
        status, reason = "interrupted", str(stop) or "KeyboardInterrupt"
    except BaseException as error:  # noqa: BLE001 - the script's own; its traceback is what its author needs
        status, reason, code = "failed", f"{type(error).__name__}: {error}", 1
        show_error(error, options.workflow)
    finally:
        if os.getpid() != process:
            leave_fork(code)
        sys.argv, sys.path[:] = before, path
        sys.stdout, sys.stderr = streams  # a script may replace or close its own
        safe_streams()
        session.close(status, reason)
    conclude(folder)
    return code or int(bool(session.failing))  # a sweep that lacks rows is no success, whatever the script makes of it


def leave_fork(code: int) -> NoReturn:
    """Return a child that the script forked came to the script's end. The run and its workers are its parent's."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code)


def show_error(error: BaseException, script: str) -> None:
    """The traceback from the script on, without the frames that only started it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    print_traceback(error, trace or error.__traceback__)


def conclude(folder: RunFolder, noun: str = "task") -> None:
    """One line about what happened, on stderr: stdout is the script's."""
    view = RunView.of(read(folder.journal))
    if not view.status:  # the disk did not take it, or someone could not wait for the end
        warning = f"{folder.run_id}: its end is not in its journal; {command('report')}  shows what is"
        errors().print(warning, style="bold red", soft_wrap=True)
        return
    ended = sum(work.finished for work in view.work.values())
    failed = f", {view.failed} failed" if view.failed else ""
    took = Duration(view.last - view.began) if view.began is not None and view.last is not None else "–"
    style = "green" if view.status == "ok" else "bold red"
    text = f"{folder.run_id}: {view.status} in {took}, {plural(ended, noun)} done{failed}"
    if incidents := view.incident_count:
        text += f", {plural(incidents, 'incident')} ({command('incidents')})"
    errors().print(f"{text}; {command('report')}  shows more", style=style, soft_wrap=True)


def show_outcome(session: ScalableSession, outcome: SweepOutcome, where: Mapping[str, str]) -> None:
    """Results and decision as  scalable results  and  scalable decide  show them, and where the rows are."""
    from scalable.cli.commands import decide, results
    from scalable.sweeps.ledger import control_of, decide_and_record
    from scalable.sweeps.loading import outcome as loaded

    screen = console()
    with working("comparing"), session.open_store() as store:
        stored = loaded(session.manifest, outcome.sweep, store, session.path.resolve().parent, where)
        compared = len(stored.variants) > 1 and stored.finished and not where  # some rows decide nothing
        decision = decide_and_record(stored, store, control_of(session.manifest)) if compared else None
    screen.print(results.title(stored))
    screen.print()
    if stored.finished:
        results.show_variants(screen, stored)
    results.show_shortfall(screen, stored)
    if decision is not None:
        screen.print()
        decide.show(screen, decision)
    if outcome.missing and outcome.stopped:
        remedy = f"; {raise_budget(session.manifest)} and run it again" if "budget" in outcome.stopped else ""
        screen.print(note("!", f"stopped: {outcome.stopped}{remedy}", "bold red"))
    pairs = [("computed", computed(outcome)), ("rows in", shown_url(session.store_url))]
    screen.print()
    screen.print(facts([*pairs, ("artefacts in", session.artefacts())]))


def computed(outcome: SweepOutcome) -> str:
    """Return how many rows a start has computed, in what time, and how often each stage."""
    others = f"; another run computed {plural(outcome.elsewhere, 'row')} meanwhile" if outcome.elsewhere else ""
    if not outcome.computed:
        return "nothing: every row was there" if outcome.complete and not others else f"nothing{others}"
    stages = ", ".join(f"{name} {times:,}" for name, times in outcome.executed.items())
    failed = min(len(outcome.failed), outcome.computed)
    took = f"{outcome.computed - failed:,} of {outcome.expected:,} rows in {Duration(outcome.seconds)}"
    tried = f"{took}, {failed:,} failed" if failed else took
    return f"{tried}: {stages}{others}" if stages else f"{tried}{others}"


def task_text(task: Task, value: Any) -> str:
    """Return the result of a task; of one over axes how many there are, and over what."""
    if not task.over:
        return result_text(value)
    return f"{plural(count(task.over), 'result')} over {' × '.join(task.over)}; --format json  prints them"


def result_text(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a class of the user's own
        return f"a {type(value).__name__} that cannot be shown: {error}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
