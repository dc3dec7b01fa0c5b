"""Whether the shipped workload can do what sweeps say, asked before anything starts and told at its place.

The manifest knows the factors of the catalogue; what else a sweep may set, and what contradicts what, only the workload
knows. A sweep with ``run`` is checked when it is compiled, since that imports its code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from scalable.catalogue import FACTORS, PLUGIN
from scalable.errors import QuantityError, ScalableError
from scalable.findings import Finding, Severity
from scalable.manifest.models import Manifest
from scalable.manifest.task_checks import undefined
from scalable.manifest.work import Sweep
from scalable.sweeps.project import in_project

Settings = Mapping[str, Any]


def impossible(manifest: Manifest) -> list[Finding]:
    """Return what is unknown, out of range or contradicts itself in the settings of sweeps without ``run``."""
    with in_project(manifest.folder):
        return list(contradictions(manifest))


def contradictions(manifest: Manifest) -> Iterator[Finding]:
    sweeps = {name: sweep for name, sweep in manifest.sweeps.items() if sweep.workload == PLUGIN.name}
    if not sweeps:
        return
    try:
        from scalable.finetune.settings import DEFAULTS, OF_OTHERS
    except ModuleNotFoundError:  # without the extra nothing runs here; who only plans is not kept from it
        return
    read = set(DEFAULTS) - OF_OTHERS
    for name, sweep in sweeps.items():
        path = f"sweeps.{name}"
        if unread := [axis for axis in sweep.compare if axis not in read]:
            message = f"the trading workload has nothing called {unread[0]!r}, and no other is named"
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
        for finding in refused(path, sweep, unknown):
            first.setdefault(finding.path, finding)
        yield from first.values()


def refused(path: str, sweep: Sweep, unknown: Iterable[str]) -> Iterator[Finding]:
    written = {name: value for name, value in sweep.settings.items() if name not in unknown}
    common = {**sweep.implied, **written}
    costs = sweep.average.get("cost_bps", ())
    for index, variant in enumerate(product(*sweep.compare.values())):
        varied = dict(zip(sweep.compare, variant, strict=True))
        first = costs if index == 0 else costs[:1]  # they have nothing to do with each other
        for place, cost in enumerate(first or (None,)):
            cell = {**common, **varied, **({"cost_bps": cost} if cost is not None else {})}
            for about, message, remedy in complaints(cell):
                where = at(path, sweep, about, message, varied, place)
                text = message.removeprefix(f"{about}: ") if where.endswith(f".{about}") else message
                other = locked_away({*written, *varied}, cell)
                if other:
                    text += f" (unless another {other} is locked)"
                elif about == "market":
                    text += " on this machine"
                doubtful = other or about == "market"  # data may be elsewhere than who validates
                severity = Severity.WARNING if doubtful else Severity.ERROR
                yield Finding("impossible-setting", severity, where, text, remedy)


def complaints(cell: Settings) -> list[tuple[str, str, str]]:
    """Return what a configuration is refused for: the setting it is about, why, and what to write."""
    from scalable.finetune.settings import check

    try:
        check(cell)
    except QuantityError as error:
        return [
            (str(problem.at[0]) if problem.at else "", problem.message, problem.remedy)
            for problem in (error, *error.others)
        ]
    except ScalableError as error:
        message, _, remedy = str(error).rpartition("; ")
        return [(message.partition(":")[0], message, remedy)]
    return []


def at(path: str, sweep: Sweep, about: str, message: str, varied: Settings, cost: int) -> str:
    """Return where in the sweep that is written: the setting itself, or the one of the sweep that leads to it."""
    if about == "cost_bps":
        return f"{path}.{sweep.where('average.cost_bps')}[{cost}]"
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


def locked_away(stated: set[str], cell: Settings) -> str:
    """A factor the sweep says nothing about with a variant that, if it is locked, makes the configuration good."""
    others = (factor for factor in FACTORS.values() if factor.name not in stated)
    return next(
        (each.name for each in others for value in each.variants if not complaints({**cell, each.name: value})), ""
    )
