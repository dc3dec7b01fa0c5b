"""Which providers there are: those that come with the package, those registered, those of installed packages."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points

from scalable.cluster.base import DeploymentProvider
from scalable.errors import UsageError
from scalable.manifest.targets import PROVIDER_GROUP, REGISTERED
from scalable.wording import not_defined

BUILT_IN = {
    "local": ("scalable.cluster.local", "LocalProvider"),
    "slurm": ("scalable.cluster.slurm.provider", "SlurmProvider"),
    "kubernetes": ("scalable.cluster.kubernetes.provider", "KubernetesProvider"),
    "aws": ("scalable.cluster.aws.provider", "AwsProvider"),
    "gcp": ("scalable.cluster.gcp.provider", "GcpProvider"),
}


def register_provider(name: str, factory: Callable[[], DeploymentProvider]) -> None:
    """Make a provider known by a name; the last one registered wins, also over one that comes with the package."""
    if not name or not callable(factory):
        raise UsageError("register_provider takes a name and something to call that gives the provider")
    REGISTERED[name] = factory


def get_provider(name: str) -> DeploymentProvider:
    """The provider of this name: registered, of this package, or of another that is installed."""
    if name in REGISTERED:
        made: DeploymentProvider = REGISTERED[name]()
        return made
    if name in BUILT_IN:
        module, attribute = BUILT_IN[name]
        provider: DeploymentProvider = getattr(import_module(module), attribute)()
        return provider
    offered = {point.name: point for point in entry_points(group=PROVIDER_GROUP)}
    if name in offered:
        found: DeploymentProvider = offered[name].load()()
        return found
    raise UsageError("; ".join(not_defined("provider", name, {*REGISTERED, *BUILT_IN, *offered})))
