"""One factor of the trading workload, carried out in five ways that must give the same rows.

``ours`` is a sweep of this system from an empty folder. ``naive`` is a loop over rows that shares nothing. ``dask`` and
``ray`` are graphs written by hand in which every distinct stage is one task. ``bound`` is what none of them can beat:
every distinct stage once in two plain processes, nothing stored, nothing watched. The clock of each starts before
anything of it is imported and stops with its last row in hand; ours has closed everything it started by then, which is
not asked of the others. Imports nothing heavy at the top: worker processes import this file again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

WORKERS = 2
FOLDS = 5
COSTLIEST = "search"

Row = list[Any]
"""Variant, asset, fold, cost in basis points and metrics: what JSON can hold without changing it."""
Configuration = Mapping[str, Any]
Where = tuple[Any, ...]


class Once:
    """Every distinct stage once: what a user writes by hand with a dictionary. ``submit`` calls or hands on."""

    def __init__(self, submit: Callable[..., Any]) -> None:
        from scalable_finetune.workload import WORKLOAD

        self.stages = WORKLOAD.by_name
        self.submit = submit
        self.known: dict[Where, Any] = {}
        self.reads: dict[str, list[str]] = {}
        for stage in WORKLOAD.stages:  # in an order in which each comes after its inputs
            before = [name for need in stage.needs for name in self.reads[need]]
            self.reads[stage.name] = sorted({*stage.reads, *before})

    def value(self, name: str, configuration: Configuration) -> Any:
        where = self.where(name, configuration)
        if where not in self.known:
            stage = self.stages[where[0]]
            needed = stage.needed(configuration).items()
            inputs = [self.value(need, configuration) if given else None for need, given in needed]
            values = {read: configuration[read] for read in stage.reads}
            self.known[where] = self.submit(stage.name, values, *inputs)
        return self.known[where]

    def where(self, name: str, configuration: Configuration) -> Where:
        """What tells a result from others: the stage, past those that are left out, and all that decides it."""
        stage = self.stages[name]
        if stage.left_out(configuration):
            return self.where(stage.needs[0], configuration)
        return (name, *(configuration[read] for read in self.reads[name]))


def call(name: str, values: dict[str, Any], *inputs: Any) -> Any:
    from scalable_finetune.workload import WORKLOAD

    return WORKLOAD.by_name[name].function(*inputs, **values)


def cells(manifest: Path, sweep: str) -> list[tuple[Row, Configuration]]:
    """A sweep's rows, still without metrics, and the configuration of each."""
    from scalable.manifest import load_file
    from scalable.sweeps.compiling import compiled

    made = compiled(load_file(manifest, env={}, target="local").manifest, sweep, {})
    return [([*at.variant, *at.block, *at.averaged], work.configuration) for work, at in made.cells]


def ours(manifest: Path, sweep: str) -> Iterator[Row]:
    from scalable import ScalableSession

    session = ScalableSession.from_yaml(manifest, target="local")
    outcome = session.run_sweep(sweep)
    assert outcome.complete, outcome.why()
    with session.open_store() as store:
        for row in store.rows():
            yield [*row.axes.values(), row.metrics]


def naive(manifest: Path, sweep: str, *parts: int) -> Iterator[Row]:
    """One row for each asset and fold, from scratch; variants and costs take turns, so that all are met alike.

    ``parts`` chooses folds by their place; all without it.
    """
    everything = cells(manifest, sweep)
    variants, costs = (list(dict.fromkeys(row[at] for row, _ in everything)) for at in (0, 3))
    pairs = list(dict.fromkeys((row[1], row[2]) for row, _ in everything))
    for number, (asset, fold) in enumerate(pairs):
        if parts and number % FOLDS not in parts:
            continue
        # a step of its own for each asset keeps a variant from meeting the same folds only
        wanted = [variants[(number + number // FOLDS) % len(variants)], asset, fold, costs[number // 3 % len(costs)]]
        configuration = next(one for row, one in everything if row == wanted)
        yield [*wanted, Once(call).value("row", configuration)]


def dask(manifest: Path, sweep: str) -> Iterator[Row]:
    from distributed import Client, LocalCluster

    settings: dict[str, Any] = {"n_workers": WORKERS, "threads_per_worker": 1, "processes": True}
    with LocalCluster(**settings, dashboard_address=None) as cluster, Client(cluster) as client:
        graph = Once(lambda *arguments: client.submit(call, *arguments))
        rows = [(row, graph.value("row", configuration)) for row, configuration in cells(manifest, sweep)]
        found = client.gather([future for _, future in rows])
        yield from ([*row, metrics] for (row, _), metrics in zip(rows, found, strict=True))


def ray(manifest: Path, sweep: str) -> Iterator[Row]:
    import logging

    import ray as system

    system.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        graph = Once(system.remote(call).remote)
        rows = [(row, graph.value("row", configuration)) for row, configuration in cells(manifest, sweep)]
        found = system.get([reference for _, reference in rows])
        yield from ([*row, metrics] for (row, _), metrics in zip(rows, found, strict=True))
    finally:
        system.shutdown()


def bound(manifest: Path, sweep: str) -> Iterator[Row]:
    """Every asset is prepared once, then its searches are handed out one by one to whoever is free."""
    from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
    from multiprocessing import get_context

    units: dict[str, dict[Where, list[tuple[Row, Configuration]]]] = {}
    by = Once(call)
    for row, configuration in cells(manifest, sweep):
        unit = by.where(COSTLIEST, configuration)
        units.setdefault(configuration["asset"], {}).setdefault(unit, []).append((row, configuration))
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        left: set[Future[Any]] = set()
        prepared = {pool.submit(prepare, [cells[0][1] for cells in of.values()]): of for of in units.values()}
        left |= set(prepared)
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            for future in done:
                if future in prepared:
                    unit_cells = list(prepared[future].values())
                    ready = zip(future.result(), unit_cells, strict=True)
                    left |= {pool.submit(finish, known, these) for known, these in ready}
                else:
                    yield from future.result()


def prepare(configurations: list[Configuration]) -> list[dict[Where, Any]]:
    """For each of these: what its search, and what follows the search, is made of."""
    asset = Once(call)
    names = list(asset.stages)
    late = names[names.index(COSTLIEST) :]
    needed = {need for name in late for need in asset.stages[name].needs} - set(late)
    return [{asset.where(need, each): asset.value(need, each) for need in sorted(needed)} for each in configurations]


def finish(known: dict[Where, Any], these: list[tuple[Row, Configuration]]) -> list[Row]:
    unit = Once(call)
    unit.known.update(known)
    return [[*row, unit.value("row", configuration)] for row, configuration in these]


WAYS: dict[str, Callable[..., Iterator[Row]]] = {
    "ours": ours,
    "bound": bound,
    "dask": dask,
    "ray": ray,
    "naive": naive,
}


def main(way: str, manifest: str, sweep: str, told: str, *parts: int) -> None:
    """Carry it out and write how long it took, and the rows, into a file."""
    os.chdir(Path(manifest).parent)
    with redirect_stdout(sys.stderr):  # systems greet on the standard output
        began = first = last = time.perf_counter()
        rows: list[Row] = []
        try:
            for row in WAYS[way](Path(manifest), sweep, *parts):
                rows.append(row)
                last = time.perf_counter()
                first = last if len(rows) == 1 else first
            found: dict[str, Any] = {"seconds": last - began, "first_s": first - began, "rows": rows}
        except ModuleNotFoundError as error:
            if error.name != "ray":
                raise
            found = {"missing": error.name}
    Path(told).write_text(json.dumps(found), encoding="utf-8")
