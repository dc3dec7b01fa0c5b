"""``scalable admin deploy airflow``: a sweep as a DAG of Airflow, written as Python that a person would keep.

The first task takes one place for the whole run of the DAG, a task per asset computes that asset's rows in a pod as
large as a worker, and the last task fails if a row is missing. Airflow starts a lost task once more; attempts of runs
are counted by the sweep alone. Secrets stay where they are: only their names are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scalable.cluster.kubernetes.objects import DISK, DISK_LIMIT, DISK_REQUEST, amounts, label, spread, text, with_disk
from scalable.deploy.airflow_text import HEAD, IMPORT_KUBERNETES, KUBERNETES, SETTINGS, TASKS
from scalable.deploy.deployment import HOME
from scalable.deploy.source import STORE
from scalable.errors import UnknownNameError, UsageError
from scalable.manifest.models import Manifest
from scalable.manifest.targets import KubernetesTarget, LocalTarget, SecretKey, unpinned
from scalable.observe.redact import looks_secret, redact_text
from scalable.planning.places import places
from scalable.planning.resources import Size
from scalable.planning.site import profile_of
from scalable.quantities import Cpu, Memory, decimal_text, exact
from scalable.store.urls import SQLITE, scheme_of
from scalable.sweeps.grid import Grid
from scalable.wording import plural, undefined

IN_IMAGE = f"{HOME}/scalable.yaml"
"""Where the manifest is in the image; another one may be named when the DAG is triggered."""
BESIDE = Memory.parse("1GiB")  # Airflow's own process in a task's pod, and the driver of its worker
SMALL = {  # of tasks that only ask the store: most of their work is Airflow's own start
    "requests": {**amounts(Size(Cpu.of(0.25), BESIDE)), DISK: DISK_REQUEST},
    "limits": {**amounts(Size(Cpu.of(1), BESIDE)), DISK: DISK_LIMIT},
}
WIDTH = 120
ENDS_RAW = "endraw"
"""The one word that a text may not have in which Airflow is to find no templates."""


def render(
    manifest: Manifest,
    target: str,
    sweep: str,
    *,
    manifest_path: Path = Path("scalable.yaml"),
    profile: str | None = None,
) -> dict[str, str]:
    """Return the DAG's file, by its name.

    ``manifest_path`` is the manifest's file, for tasks that run on this machine; ``profile`` the size of a worker, the
    one that the sweep is routed to where nothing is locked when not given.
    """
    if sweep not in manifest.sweeps:
        raise UnknownNameError(undefined("sweep", sweep, manifest.sweeps))
    if target not in manifest.targets:
        raise UnknownNameError(undefined("target", target, manifest.targets))
    to = manifest.targets[target]
    profile = profile or profile_of(manifest.sweeps[sweep], {})
    grid = Grid.of(manifest.sweeps[sweep], manifest.groups)
    if not grid.over:
        raise UsageError(f"sweeps.{sweep}: a DAG has a task for each value of the first axis of over; add one")
    retry = manifest.policies.retry_of(manifest.sweeps[sweep].retry)
    for name in (sweep, target, *grid.groups):
        if ENDS_RAW in name:
            raise UsageError(f"{name!r}: Airflow reads {ENDS_RAW} as the end of a text without templates; rename it")
    parts = {
        "about": f"{plural(len(grid), 'row')}, {plural(len(grid.groups), grid.over[0].name)}",
        "title": identifier(sweep),
        "sweep": literal(sweep),
        "target": literal(target),
        "axis": grid.over[0].name,
        "parts": literal(tasks(grid.over[0].name, grid.groups), "PARTS = "),
        "dag": literal(f"scalable_{identifier(sweep)}"),
        "profile": identifier(profile),
        "sized": literal(profile),
        "delay": decimal_text(exact(retry.delay.seconds)),
        "cap": decimal_text(exact(retry.cap.seconds)),
    }
    if isinstance(to, KubernetesTarget):
        parts |= {"manifest": literal(IN_IMAGE), **pods(manifest, target, to, sweep, profile)}
        whole = HEAD + IMPORT_KUBERNETES + SETTINGS + KUBERNETES + TASKS
    elif isinstance(to, LocalTarget):
        parts |= {"manifest": literal(str(manifest_path.resolve())), "where": "a process of its own"}
        parts |= {"in_worker": "", "in_small_line": ""}
        whole = HEAD + SETTINGS + TASKS
    else:
        raise UsageError(
            f"targets.{target}: Airflow runs a sweep in pods of a kubernetes target, or as processes with a local one, "
            f"not on {to.provider}; name another target"
        )
    return {f"scalable_{identifier(sweep)}.py": filled(whole, parts)}


def pods(manifest: Manifest, name: str, target: KubernetesTarget, sweep: str, profile: str) -> dict[str, str]:
    """Return what is known of the pods: image, sizes, nodes, variables."""
    where = f"targets.{name}"
    if target.image is None:
        raise UsageError(f"{where}: no image is named; write image: REGISTRY/NAME:VERSION")
    if problem := unpinned(target.image):
        raise UsageError(f"{where}.image: {problem}; name a version or a digest")
    if STORE not in target.env and scheme_of(manifest.store) in SQLITE:
        raise UsageError(
            f"store: a file in a pod goes with the pod, and no other task sees it; write  store: postgresql://…  or, "
            f"with a password, {where}.env: {{{STORE}: {{secret: NAME, key: KEY}}}}"
        )
    for variable, value in target.env.items():
        if not isinstance(value, SecretKey) and (looks_secret(variable) or redact_text(text(value)) != text(value)):
            raise UsageError(
                f"{where}.env.{variable} would stand in the DAG for all to read; "
                f"write {variable}: {{secret: NAME, key: KEY}}"
            )
    place = places(manifest)[profile]
    apart = spread(place, {})
    requests, limits = with_disk(
        {**written(target.resources.requests), **larger(place.request)},
        {**written(target.resources.limits), **larger(place.limit)},
    )
    worker = {"requests": requests, "limits": limits}
    rules = [{"max_skew": apart["maxSkew"], "min_domains": apart["minDomains"]}] if apart else []
    tolerations = [
        dict(toleration) for toleration in (*(each.written for each in target.tolerations), *place.tolerations)
    ]
    secrets = {
        variable: [value.secret, value.key] for variable, value in target.env.items() if isinstance(value, SecretKey)
    }
    plain = {variable: text(value) for variable, value in target.env.items() if not isinstance(value, SecretKey)}
    account = target.worker_service_account
    return {
        "where": "a pod of its own",
        "image": literal(target.image),
        "worker": literal(worker, "WORKER = "),
        "small": literal(SMALL, "SMALL = "),
        "labels": literal({"scalable/sweep": label(sweep)}, "LABELS = "),
        "selector": literal({**target.node_selector, **place.selector}, "NODE_SELECTOR = "),
        "tolerations": literal(tolerations, "TOLERATIONS = "),
        "spread": literal(rules),
        "secrets": literal(secrets, "SECRETS = "),
        "variables": literal(plain, "VARIABLES = "),
        "account": f"\n        service_account_name={literal(account)}," if account else "",
        "in_worker": "\n            executor_config=worker_pod(),",
        "in_small_line": "\n        executor_config=pod(SMALL),",
    }


def written(amounts: Mapping[str, object]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def larger(size: Size) -> dict[str, str]:
    """Return the amounts of the pod in which a worker of this size stands beside its driver and Airflow."""
    memory = Memory(size.memory.bytes + BESIDE.bytes) if size.memory.bytes else size.memory
    return amounts(Size(size.cpu, memory, size.gpus))


def tasks(axis: str, values: tuple[str, ...]) -> dict[str, str]:
    """Return the rows of each value of an axis by a task's id: as far as Airflow takes its name, never one for two."""
    parts: dict[str, str] = {}
    for value in values:
        name = f"{axis}_{identifier(value)}"
        while name in parts:
            name += "_"
        parts[name] = f"{axis}={value}"
    return parts


def identifier(name: str) -> str:
    """Return a text as ids of DAGs and tasks and names of files may be."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:LONGEST]


LONGEST = 200  # characters of a name; Airflow takes 250 with what is before it


def literal(value: Any, before: str = "") -> str:
    """Return a value as Python, in one line if it fits behind what stands before it, else a line for each entry."""
    line = python_text(value)
    if len(before) + len(line) <= WIDTH or not isinstance(value, dict | list):
        return line
    if isinstance(value, dict):
        return "\n".join(
            ["{", *(f"    {python_text(key)}: {python_text(entry)}," for key, entry in value.items()), "}"]
        )
    return "\n".join(["[", *(f"    {python_text(entry)}," for entry in value), "]"])


def python_text(value: Any) -> str:
    """Return a value as Python, with the quotes that formatters write."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{python_text(key)}: {python_text(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(python_text, value)) + "]"
    if isinstance(value, str) and '"' in value:
        return repr(value)
    return json.dumps(value, ensure_ascii=False)  # a text, or a number: the same in Python


def filled(template: str, parts: dict[str, str]) -> str:
    return re.sub(r"<<(\w+)>>", lambda match: parts[match[1]], template)
