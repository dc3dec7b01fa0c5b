"""Check before anything starts that the workloads of plug-ins can do what sweeps ask for; name the place if not.

The manifest knows the factors of a plug-in; what else a sweep may set, and what contradicts what, only the workload
knows. A sweep with ``run`` is checked when it is compiled, since that imports its code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from scalable.errors import QuantityError, ScalableError
from scalable.findings import Finding, Severity
from scalable.manifest.models import Manifest
from scalable.manifest.task_checks import undefined
from scalable.manifest.work import Sweep
from scalable.plugins import WorkloadPlugin, installed
from scalable.sweeps.project import in_project
from scalable.sweeps.stages import StageError
from scalable.sweeps.workload import Workload, find_workload

Settings = Mapping[str, Any]


def impossible(manifest: Manifest) -> list[Finding]:
    """Return what is unknown, out of range or contradicts itself in the settings of sweeps without ``run``."""
    with in_project(manifest.folder):
        return list(contradictions(manifest))


def contradictions(manifest: Manifest) -> Iterator[Finding]:
    for plugin in installed().values():
        sweeps = {name: sweep for name, sweep in manifest.sweeps.items() if sweep.workload == plugin.name}
        if not sweeps:
            continue
        try:
            workload = find_workload(plugin.run)
        except StageError:  # without its libraries nothing runs here; who only plans is not kept from it
            continue
        yield from in_sweeps(sweeps, plugin, workload)


def in_sweeps(sweeps: Mapping[str, Sweep], plugin: WorkloadPlugin, workload: Workload) -> Iterator[Finding]:
    """Yield what is wrong with the sweeps of one plug-in."""
    read = workload.reads.intersection(workload.defaults or workload.reads)  # what has no default comes from axes alone
    for name, sweep in sweeps.items():
        path = f"sweeps.{name}"
        if unread := [axis for axis in sweep.compare if axis not in read]:
            message = f"{plugin.label} has nothing called {unread[0]!r}, and no other is named"
            remedy = "write run: package.module:function for a workload of your own"
            where = "factor" if sweep.is_short else f"compare.{unread[0]}"
            yield Finding.warning("no-workload", f"{path}.{where}", message, remedy)
            continue
        unknown = [setting for setting in sweep.settings if setting not in read]
        for setting in unknown:
            yield undefined(
                f"{path}.settings.{setting}", "setting", setting, read - {*sweep.over, *sweep.average, *sweep.implied}
            )
        first: dict[str, Finding] = {}  # what is wrong with one variant is as a rule with the next, too
        for finding in refused(path, sweep, unknown, plugin, workload):
            first.setdefault(finding.path, finding)
        yield from first.values()


def refused(
    path: str, sweep: Sweep, unknown: Iterable[str], plugin: WorkloadPlugin, workload: Workload
) -> Iterator[Finding]:
    """Yield what the workload's own check says of a sweep's variants."""
    written = {name: value for name, value in sweep.settings.items() if name not in unknown}
    common = {**(workload.defaults or {}), **sweep.implied, **written}
    for index, variant in enumerate(product(*sweep.compare.values())):
        varied = dict(zip(sweep.compare, variant, strict=True))
        for averaged in averaged_values(sweep, all_of_them=index == 0):
            cell = {**common, **varied, **averaged}
            for about, message, remedy in complaints(workload, cell):
                where = at(path, sweep, about, message, varied, averaged)
                text = message.removeprefix(f"{about}: ") if where.endswith(f".{about}") else message
                other = locked_away(plugin, workload, {*written, *varied}, cell)
                local = about in plugin.on_this_machine  # data may be elsewhere than who validates
                if other:
                    text += f" (unless another {other} is locked)"
                elif local:
                    text += " on this machine"
                severity = Severity.WARNING if other or local else Severity.ERROR
                yield Finding("impossible-setting", severity, where, text, remedy)


def averaged_values(sweep: Sweep, all_of_them: bool) -> Iterator[dict[str, Any]]:
    """Yield values of the averaged axes: the first of each, and each other one with the first of the rest."""
    first = {name: values[0] for name, values in sweep.average.items()}
    yield first
    for name, values in sweep.average.items() if all_of_them else ():
        yield from ({**first, name: value} for value in values[1:])


def complaints(workload: Workload, cell: Settings) -> list[tuple[str, str, str]]:
    """Return what a configuration is refused for: the setting it is about, why, and what to write."""
    try:
        if workload.check is not None:
            workload.check(cell)
    except QuantityError as error:
        return [
            (str(problem.at[0]) if problem.at else "", problem.message, problem.remedy)
            for problem in (error, *error.others)
        ]
    except ScalableError as error:
        message, _, remedy = str(error).rpartition("; ")
        return [(message.partition(":")[0], message, remedy)]
    return []


def at(path: str, sweep: Sweep, about: str, message: str, varied: Settings, averaged: Settings) -> str:
    """Return where in the sweep that is written: the setting itself, or the one of the sweep that leads to it."""
    if about in averaged:
        return f"{path}.{sweep.where(f'average.{about}')}[{sweep.average[about].index(averaged[about])}]"
    for name in (about, *(word for word in sweep.settings if f"{word}:" in message)):
        if name in sweep.settings:
            return f"{path}.settings.{name}"
    for name, value in varied.items():
        if about == name or f"{name}:" in message:
            key = sweep.where(f"compare.{name}")
            return f"{path}.{key}" if key == "factor" else f"{path}.{key}[{sweep.compare[name].index(value)}]"
    for name in (about, "folds"):
        if name in sweep.implied and (name == about or f" {name} " in message):
            return f"{path}.{sweep.where(f'settings.{name}')}"
    return path


def locked_away(plugin: WorkloadPlugin, workload: Workload, stated: set[str], cell: Settings) -> str:
    """Return a factor the sweep says nothing about with a variant that, if it is locked, makes all good."""
    others = ((name, factor.variants) for name, factor in plugin.factors.items() if name not in stated)
    choices = ((name, value) for name, values in others for value in values)
    return next((name for name, value in choices if not complaints(workload, {**cell, name: value})), "")
