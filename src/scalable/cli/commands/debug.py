"""``scalable debug``: one run that did not finish, or one cell of a sweep, again, in the foreground of this process.

No guard, no limits and no runner: what it prints is seen, Ctrl-C stops it, and ``breakpoint()`` works.
"""

from __future__ import annotations

import argparse
import os
import pdb
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from types import TracebackType
from typing import TYPE_CHECKING, Any

import scalable
from scalable.axes import number_text
from scalable.cli import context, operating
from scalable.cli.output import console, errors, facts, print_json, print_traceback, working
from scalable.errors import ScalableError, UsageError
from scalable.observe import RunFolder, RunView, read
from scalable.observe.fields import text
from scalable.observe.jobs import FINAL, JobHistory
from scalable.observe.journal import jsonable
from scalable.observe.liveness import state_in
from scalable.quantities import Duration
from scalable.wording import undefined
from scalable.worker.runner.calls import TaskResult

if TYPE_CHECKING:
    from scalable.sweeps.compiling import Compiled
    from scalable.sweeps.grid import Cell
    from scalable.sweeps.units import RowWork

CALLERS = tuple(str(Path(scalable.__file__).parent / name) + os.sep for name in ("worker", "sweeps"))
"""Whose frames only lead to a function or a stage."""

Work = tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]


def run(options: argparse.Namespace) -> int:
    if options.sweep is not None:
        return run_cell(options)
    if options.name is None:
        raise UsageError("name the run, or a row: --sweep models --where dataset=wine --where fold=2")
    folder = operating.chosen(options)
    path = saved(folder, options.name)
    folder.must_be_own()
    if not operating.trusted(folder, options.manifest):
        raise ScalableError(
            f"{folder.run_id} was not made by you in {folder.path.parent}, and what it keeps would run as yours; "
            "if you trust it, name its manifest: --manifest …"
        )
    prepare(folder)
    function, positional, named = load(path, options.name)
    errors().print(f"{options.name} of {folder.run_id}, in this process ({os.getpid()})", style="dim", soft_wrap=True)
    began = time.monotonic()
    try:
        value = function(*positional, **named)
        value = value.value if isinstance(value, TaskResult) else value
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the run's own, sys.exit included; its traceback is what is wanted
        report(error, enter=options.pdb)
        return 1
    if options.format == "json":
        print_json({"run_id": folder.run_id, "run": options.name, "result": jsonable(value)})
    else:
        console().print(repr(value), soft_wrap=True)
    errors().print(f"finished in {Duration(time.monotonic() - began)}: the error did not come again", style="green")
    return 0


def run_cell(options: argparse.Namespace) -> int:
    """Return the first cell that is meant; stages that are kept are found, unless all is to be computed anew."""
    from scalable.cli.commands.results import which
    from scalable.session.session import ScalableSession
    from scalable.store import Row, RowError
    from scalable.sweeps import units
    from scalable.sweeps.files import InputFiles
    from scalable.sweeps.loading import importable

    session = ScalableSession.from_yaml(options.manifest)
    sweep = which(session.manifest, options.sweep)
    with working("looking at what is there"), session.open_store() as store:
        compiled = session.compile(sweep, store)
    work, cell, place = the_cell(compiled, options)
    errors().print(f"{compiled.grid.cell_text(cell)}, in this process ({os.getpid()})", style="dim", soft_wrap=True)
    kept = None if options.fresh else units.opened(session.artefacts())
    with importable(session.path.resolve().parent):
        files = InputFiles.of(compiled.sweep.inputs or ())
    evaluation = units.Evaluation(compiled.workload, kept, files=files)
    began = time.monotonic()
    try:
        with importable(session.path.resolve().parent):
            metrics = evaluation.metrics(work)
        Row(run_key=work.run_key, sweep=sweep, metrics=metrics)  # what no store can hold fails, too
    except (
        KeyboardInterrupt,
        RowError,
        units.WorkloadResultError,
    ):  # what it returned is no row: no line of it is to blame
        raise
    except BaseException as error:  # noqa: BLE001 - the cell's own; its traceback is what is wanted
        report(error, enter=options.pdb)
        return 1
    executed = [computed.stage for computed in evaluation.stages]
    if options.format == "json":
        print_json({"cell": place, "run_key": work.run_key, "executed": executed, "metrics": jsonable(metrics)})
    else:
        console().print(facts([(name, f"{value}") for name, value in metrics.items()]))
    done = ", ".join(executed) or "nothing"
    errors().print(f"finished in {Duration(time.monotonic() - began)}, computed: {done}; not stored", style="green")
    return 0


def the_cell(compiled: Compiled, options: argparse.Namespace) -> tuple[RowWork, Cell, dict[str, str]]:
    """Return the first row that has what is asked for, and what people call it by."""
    wanted = context.chosen(options)
    for name, axis in (("variant", "variant"), ("fold", "fold"), ("cost", "cost_bps")):
        if getattr(options, name):
            wanted[axis] = getattr(options, name)
    chosen = compiled.of(wanted) if wanted else compiled
    work, cell = chosen.cells[0]
    return work, cell, {name: number_text(value) for name, value in chosen.address(cell).items()}


def saved(folder: RunFolder, name: str) -> Path:
    """Return where what the run does is kept; if it is not, why, and what to do."""
    path = folder.work(name)
    if path.exists():
        if path.stat().st_uid not in (os.geteuid(), 0):
            raise ScalableError(f"{path} belongs to another user; what it holds would be executed as yours")
        return path
    view = RunView.of(read(folder.journal), name)
    history = JobHistory.of(view)
    if not history.known:
        kept = [job for job in view.jobs if folder.work(job).exists()]
        raise UsageError(undefined("run", name, kept or view.jobs))
    if history.direct:
        raise ScalableError(f"{name} was handed to Dask directly, which keeps nothing: call its function in a script")
    if history.state == "finished":
        raise ScalableError(
            f"{name} finished, and only runs that did not are kept; scalable run --task {quote(name)}  repeats"
        )
    if state_in(folder, view).over:
        if history.events and history.state not in FINAL:
            why = f"its session ended before it was given up; scalable run --task {quote(name)}  runs it again"
            raise ScalableError(f"{name} was not kept: {why}")
        why = "it was never started, or what it was given is too large to be kept"
        raise ScalableError(f"{name} was not kept: {why}; call its function yourself with what the manifest says")
    raise ScalableError(
        f"{name} is {history.state}: what it does is kept once it has failed; scalable explain {quote(name)}  says more"
    )


def prepare(folder: RunFolder) -> None:
    """Modules are found and files named as in the session."""
    facts = folder.facts()
    manifest, cwd = text(facts.get("manifest")), text(facts.get("cwd"))
    home = str(Path(manifest).parent) if manifest else ""
    for place in (home, cwd):
        if place and place not in sys.path:
            sys.path.insert(0, place)
    where = cwd or home
    if where and Path(where).is_dir():
        os.chdir(where)


def load(path: Path, name: str) -> Work:
    try:
        function, *given = pickle.loads(path.read_bytes())
        if prepared := getattr(function, "__scalable_prepare__", None):
            prepared()
    except Exception as error:  # unpickling imports and calls the user's own code
        cause = "".join(traceback.format_exception_only(error)).strip()
        raise ScalableError(f"{name} cannot be loaded from {path}: {cause}") from error
    positional, named = given if len(given) == 2 else ((), *given)
    return function, tuple(positional), dict(named)


def report(error: BaseException, *, enter: bool) -> None:
    """The traceback from the run's own code on; with ``enter``, the debugger where it was raised."""
    trace = error.__traceback__.tb_next if error.__traceback__ else None
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(CALLERS):
        trace = trace.tb_next
    print_traceback(error, trace or error.__traceback__)
    if enter:
        errors().print("at the error: w shows where, p name a value, u and d the callers, q leaves", style="dim")
        post_mortem(trace or error.__traceback__)


def post_mortem(trace: TracebackType | None) -> None:
    debugger = pdb.Pdb()
    debugger.reset()
    debugger.interaction(None, trace)
