"""Places to run: one module per backend behind one protocol."""

from scalable.providers.base import (
    ClusterHandle,
    DeploymentProvider,
    DeploymentSpec,
    LaunchRefused,
    ProviderError,
    WorkerTemplate,
)
from scalable.providers.registry import get_provider, register_provider

__all__ = [
    "ClusterHandle",
    "DeploymentProvider",
    "DeploymentSpec",
    "LaunchRefused",
    "ProviderError",
    "WorkerTemplate",
    "get_provider",
    "register_provider",
]
