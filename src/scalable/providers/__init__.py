"""The documented import path of the provider interface; it lives in ``scalable.cluster``."""

from scalable.cluster.base import (
    ClusterHandle,
    DeploymentProvider,
    DeploymentSpec,
    LaunchRefused,
    ProviderError,
    get_provider,
    register_provider,
)

__all__ = [
    "ClusterHandle",
    "DeploymentProvider",
    "DeploymentSpec",
    "LaunchRefused",
    "ProviderError",
    "get_provider",
    "register_provider",
]
