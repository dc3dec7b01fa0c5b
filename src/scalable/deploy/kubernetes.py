"""``scalable deploy kubernetes``: files of a namespace in which sweeps run by themselves, and what to do with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from scalable.deploy import chart, dockerfile
from scalable.deploy.access import watching_steps
from scalable.deploy.deployment import Deployment
from scalable.deploy.document import written
from scalable.deploy.objects import objects, secret_steps


@dataclass(frozen=True, slots=True)
class Rendered:
    files: Mapping[str, str]
    """Text by path in the output folder."""
    notes: tuple[str, ...]
    next: tuple[str, ...]
    """Commands, in their order."""


def rendered(deployment: Deployment, folder: Path, project: Path, *, helm: bool = False) -> Rendered:
    """``folder`` is where the files go, ``project`` where the user's code lies."""
    if helm:
        files = chart.files(deployment)
        steps = chart.steps(deployment, folder)
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
