"""``scalable admin deploy kubernetes``: files of a namespace in which sweeps run by themselves, and the next steps.

The objects are plain files, or a Helm chart in which an operator may change image, namespace, sweep, the driver's size
and the name of its Secret. Templates are the plain objects with ``{{ .Values.… }}`` in place of these values and
nothing else, so that a chart says exactly what the plain files say. The namespace is not among them: a release lives in
one that is there already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from shlex import quote

import yaml

from scalable import __version__
from scalable.deploy import access, bounds, dockerfile, job, network
from scalable.deploy.access import watching_steps
from scalable.deploy.deployment import Deployment
from scalable.deploy.document import Document, written
from scalable.deploy.source import WRITTEN_OUT

NAMESPACE = "00-namespace.yaml"
MARK = f"x{token_hex(16)}x"  # nobody can have it in a manifest
MARKED = re.compile(rf"""(["']?){MARK}(\.[\w.]+?){MARK}\1""")


@dataclass(frozen=True, slots=True)
class Rendered:
    files: Mapping[str, str]
    """Text by path in the output folder."""
    notes: tuple[str, ...]
    next: tuple[str, ...]
    """Commands, in their order."""


def rendered(deployment: Deployment, folder: Path, project: Path, *, helm: bool = False) -> Rendered:
    """Return the files; ``folder`` is where they go, ``project`` where the user's code lies."""
    if helm:
        files = chart_files(deployment)
        steps = chart_steps(deployment, folder)
    else:
        files = {name: written(documents) for name, documents in objects(deployment).items()}
        steps = plain_steps(deployment, folder)
    where = f"--file {quote(str(folder / 'Dockerfile'))} --tag {quote(deployment.image)} {quote(str(project))}"
    image = f"docker build {where}  # then docker push"
    files |= dockerfile.files(deployment, folder, project)
    files["README.md"] = readme(deployment, [image, *steps])
    return Rendered(files, tuple(deployment.notes), (image, *steps))


def plain_steps(deployment: Deployment, folder: Path) -> list[str]:
    namespace, job = (quote(str(folder / name)) for name in ("00-namespace.yaml", "60-job.yaml"))
    return [
        f"kubectl apply --filename {namespace}",
        *secret_steps(deployment),
        f"kubectl apply --filename {quote(str(folder))}",
        *watching_steps(deployment),
        f"kubectl --namespace {deployment.namespace} logs --follow job/{deployment.job}",
        f"kubectl replace --force --filename {job}  # again: computes what the store lacks",
    ]


def readme(deployment: Deployment, steps: list[str]) -> str:
    what = f"the sweep {deployment.sweep}" if deployment.sweep else "the tasks"
    lines = [f"# {deployment.project} on Kubernetes", ""]
    lines += [f"Runs {what} of the manifest's target `{deployment.target}` in the namespace `{deployment.namespace}`."]
    lines += ["", "```sh", *steps, "```", ""]
    if deployment.secrets:
        lines += ["Secrets that must exist, with these keys:", ""]
        lines += [f"- `{name}`: {', '.join(f'`{key}`' for key in keys)}" for name, keys in deployment.secrets.items()]
        lines += [""]
    if deployment.notes:
        lines += ["To know:", "", *(f"- {note}" for note in deployment.notes), ""]
    return "\n".join(lines)


def objects(deployment: Deployment) -> dict[str, list[Document]]:
    """Return the objects by file, in the order in which they are applied."""
    return {
        "00-namespace.yaml": [access.namespace(deployment)],
        "10-accounts.yaml": access.accounts(deployment),
        "20-rights.yaml": access.rights(deployment),
        "30-network.yaml": network.policies(deployment),
        "40-bounds.yaml": bounds.bounds(deployment),
        "50-manifest.yaml": [job.manifest_map(deployment)],
        "60-job.yaml": [job.job(deployment)],
    }


def secret_steps(deployment: Deployment) -> list[str]:
    """Return how each Secret is made; the values are in a file of yours, not on a command line that others can see."""
    return [
        f"kubectl --namespace {deployment.namespace} create secret generic {name} --from-env-file={name}.env"
        f"  # lines {' '.join(f'{key}=…' for key in keys)}"
        for name, keys in deployment.secrets.items()
    ]


def chart_files(deployment: Deployment) -> dict[str, str]:
    templates = objects(parametrised(deployment))
    del templates[NAMESPACE]
    plain = objects(deployment)[NAMESPACE]
    texts = {f"templates/{name}": template(written(documents)) for name, documents in templates.items()}
    texts |= {"Chart.yaml": about(deployment), "values.yaml": values(deployment), "namespace.yaml": written(plain)}
    return texts


def mark(name: str) -> str:
    """Stand for a value of Helm's while all else is written."""
    return f"{MARK}.{name}{MARK}"


def template(text: str) -> str:
    """Return marks as Helm reads them; braces that somebody has in a manifest are kept from being read.

    An operator's value is quoted: it stays one text whatever is in it, also in the manifest within the ConfigMap.
    """

    def read(match: re.Match[str]) -> str:
        return f"{{{{ {match[2]}{' | quote' if match[2].startswith('.Values.') else ''} }}}}"

    return MARKED.sub(read, text.replace("{{", '{{ "{{" }}'))


def parametrised(deployment: Deployment) -> Deployment:
    return replace(
        deployment,
        namespace=mark("Values.namespace"),
        image=mark("Values.image"),
        sweep=mark("Values.sweep") if deployment.sweep is not None else None,
        job=f"{deployment.project}-run-{mark('Release.Revision')}",  # a Job never changes: every upgrade has its own
        secret=mark("Values.driver.secret"),
        driver={name: mark(f"Values.driver.{name}") for name in deployment.driver},
        text=deployment.source.with_values({key: mark(f"Values.{key}") for key in WRITTEN_OUT}),
    )


def about(deployment: Deployment) -> str:
    fields = {
        "apiVersion": "v2",
        "name": deployment.project,
        "description": f"Runs sweeps of {deployment.project} with scalable",
        "type": "application",
        "version": "0.1.0",
        "appVersion": __version__,
    }
    return yaml.safe_dump(fields, sort_keys=False)


def values(deployment: Deployment) -> str:
    lines = [
        ("image: ", deployment.image, "of driver and workers; a version or a digest"),
        ("namespace: ", deployment.namespace, "the one the release is installed in"),
    ]
    if deployment.sweep is not None:
        lines.append(("sweep: ", deployment.sweep, "one of the manifest's"))
    text = "".join(f"{key}{yaml_text(value)}  # {comment}\n" for key, value, comment in lines)
    text += "driver:\n"
    text += "".join(f"  {name}: {yaml_text(amount)}\n" for name, amount in deployment.driver.items())
    if deployment.variables:
        text += f"  secret: {yaml_text(deployment.secret)}  # holds {', '.join(deployment.variables)}\n"
    return text


def yaml_text(value: str) -> str:
    """Return a text as YAML reads it back, numbers too."""
    return yaml.safe_dump(value, default_style='"', width=10_000).strip()


def chart_steps(deployment: Deployment, folder: Path) -> list[str]:
    release = f"{deployment.project} {quote(str(folder))} --namespace {deployment.namespace}"
    return [
        f"kubectl apply --filename {quote(str(folder / 'namespace.yaml'))}",
        *secret_steps(deployment),
        f"helm install {release}",
        *watching_steps(deployment),
        f"kubectl --namespace {deployment.namespace} logs --follow job/{deployment.project}-run-1",
        f"helm upgrade {release}  # again: computes what the store lacks",
    ]
