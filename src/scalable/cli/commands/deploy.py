"""``scalable admin deploy``: write files with which a cluster or Airflow runs sweeps, or Prometheus watches them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from scalable.cli import context
from scalable.cli.output import console, note, print_json
from scalable.deploy.deployment import chosen, deployment, namespace_name
from scalable.deploy.kubernetes import Rendered, rendered
from scalable.deploy.source import Source
from scalable.errors import UsageError
from scalable.manifest.load import read
from scalable.manifest.policies import rules_of
from scalable.observe.alerts import RULES, Rule
from scalable.observe.files import write_beside
from scalable.observe.folders import runs_dir
from scalable.observe.redact import redact_text, shows_secret
from scalable.planning.loads import route

LONGEST_LINE = 200  # characters shown of a line that is refused
ONLY_FOR = {
    "helm": ("kubernetes",),
    "api_server": ("kubernetes",),
    "prometheus": ("kubernetes",),
    "sweep": ("kubernetes", "airflow"),
    "runs": ("prometheus",),
    "alertmanager": ("prometheus",),
    "namespace": ("prometheus",),
}
"""Options that say nothing to other systems."""


def run(options: argparse.Namespace) -> int:
    folder = Path(options.output)
    check_options(options)
    check_free(folder, force=options.force)
    deployed = SYSTEMS[options.what](options, folder)
    check_secrets(deployed.files)
    left = write(folder, deployed.files)
    if options.format == "json":
        print_json(
            {"output": str(folder), "files": sorted(deployed.files), "notes": deployed.notes, "next": deployed.next}
        )
        return 0
    screen = console()
    screen.print(f"wrote {folder}: {', '.join(sorted(deployed.files))}", style="green", markup=False, soft_wrap=True)
    for text in (*deployed.notes, *([f"left as they were: {', '.join(left)}"] if left else [])):
        screen.print(note("!", text, "yellow"))
    screen.print("next:" if deployed.next else "")
    for step in deployed.next:
        screen.print(f"  {step}", soft_wrap=True)
    return 0


def on_kubernetes(options: argparse.Namespace, folder: Path) -> Rendered:
    path = context.manifest_path(options.manifest)
    source = Source.of(read(path), str(path), asked(options), options.overlay, os.environ)
    loaded = context.load_whole(source.text, source.file, source.target, options.overlay, source.environment)
    described = deployment(source, loaded, options.sweep, options.api_server, options.prometheus)
    return rendered(described, folder, path.parent, helm=options.helm)


def asked(options: argparse.Namespace) -> str | None:
    return options.target or os.environ.get("SCALABLE_TARGET") or None


def in_airflow(options: argparse.Namespace, folder: Path) -> Rendered:
    from scalable.deploy import airflow

    path = context.manifest_path(options.manifest)
    text, target, env = read(path), asked(options), dict(os.environ)
    with suppress(UsageError):  # a target on Kubernetes may name secrets, which need not be known here
        source = Source.of(text, str(path), target, options.overlay, os.environ)
        target, env = source.target, {**source.environment, **os.environ}
    loaded = context.load_whole(text, str(path), target, options.overlay, env)
    sweep = chosen(loaded.manifest, options.sweep)
    if sweep is None:
        raise UsageError("a DAG is made of a sweep; name one: --sweep S")
    if loaded.target is None:
        raise UsageError("the manifest has no target; add one with provider: kubernetes")
    profile = route(
        context.site(options, loaded), sweep, context.history(context.manifest_path(options.manifest))
    ).profile
    files = airflow.render(loaded.manifest, loaded.target, sweep, manifest_path=path, profile=profile)
    return Rendered(files, (), tuple(f"put {folder / name} where your Airflow finds DAGs" for name in files))


def with_prometheus(options: argparse.Namespace, folder: Path) -> Rendered:
    from scalable.deploy import prometheus

    runs = runs_dir(options.runs)
    if runs.exists() and not runs.is_dir():
        raise UsageError(f"--runs {runs} is a file; name the folder in which runs are recorded, e.g. .scalable/runs")
    alertmanager = address(options.alertmanager or prometheus.ALERTMANAGER_HERE)
    namespace = namespace_name(options.namespace, "--namespace") if options.namespace else None
    return prometheus.rendered(prometheus.Monitoring(runs, folder, own_rules(options), alertmanager, namespace))


def own_rules(options: argparse.Namespace) -> tuple[Rule, ...]:
    """With the thresholds of the manifest, if one is named or lies where commands look for it."""
    path = context.manifest_path(options.manifest)
    if not options.manifest and not path.exists():
        return RULES
    loaded = context.load_named(read(path), str(path), options.target, options.overlay)
    return rules_of(loaded.manifest)


def address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal()) or "/" in host:
        raise UsageError(f"--alertmanager {text} is no address; write HOST:PORT, e.g. 127.0.0.1:9093")
    return text


SYSTEMS = {"kubernetes": on_kubernetes, "airflow": in_airflow, "prometheus": with_prometheus}


def check_options(options: argparse.Namespace) -> None:
    for name, systems in ONLY_FOR.items():
        if getattr(options, name) and options.what not in systems:
            option = f"--{name.replace('_', '-')}"
            about = " and ".join(system.capitalize() for system in systems)
            raise UsageError(f"{option} is about {about}; write scalable admin deploy {systems[0]} {option}")


def check_free(folder: Path, *, force: bool) -> None:
    """Complain before anything is computed. What is not a folder is never replaced."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--output {folder} is a file; name a folder, e.g. --output deploy")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise UsageError(f"{folder} is not empty; --force replaces files of the same names in it")


def check_secrets(files: Mapping[str, str]) -> None:
    """Refuse what holds a secret after all: one of this environment, or one that shows by its shape."""
    for name, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if shows_secret(line):
                raise UsageError(
                    f"line {number} of {name} would hold a secret: {redact_text(line).strip()[:LONGEST_LINE]}; nothing "
                    "was written; write ${NAME} in the manifest instead, or {secret: NAME, key: KEY}"
                )


def write(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Write each file whole or not at all, and return which others lie there: kubectl and helm would take them, too."""
    before = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_beside(path, text, private=False)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}; name another folder: --output DIR") from None
    return sorted(before - set(files))
