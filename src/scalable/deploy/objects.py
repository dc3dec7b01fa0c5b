"""All objects of a namespace for runs, by file, and how the Secrets that they name are made."""

from __future__ import annotations

from scalable.deploy import access, bounds, job, network
from scalable.deploy.deployment import Deployment
from scalable.deploy.document import Document


def objects(deployment: Deployment) -> dict[str, list[Document]]:
    """By file, in the order in which they are applied."""
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
