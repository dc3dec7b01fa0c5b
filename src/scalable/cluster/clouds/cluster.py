"""``CloudCluster``: a scheduler here, workers on hired capacity that connect to it with the run's own certificates."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from distributed.utils import get_ip

from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.cluster.clouds.fleet import CloudError, Fleet
from scalable.cluster.clouds.launcher import CloudLauncher
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.network import contact, no_such_port
from scalable.cluster.security import certified, forget
from scalable.errors import UsageError
from scalable.manifest.targets import AwsTarget, GcpTarget
from scalable.worker.project import Project


class CloudCluster(TaggedCluster):
    """All workers of one run. ``close`` removes everything that it had the cloud make."""

    def __init__(
        self,
        fleet: Fleet,
        target: AwsTarget | GcpTarget,
        home: Path,
        folder: Path,
        templates: Iterable[WorkerTemplate],
        *,
        name: str,
        allowed_failures: int = 1,
    ) -> None:
        if problem := no_such_port(target.port or 0):
            raise UsageError(f"port: {problem}")
        try:
            fleet.open()
        except CloudError as error:
            raise UsageError(str(error)) from None
        self.handout = home / "handout"
        environment = {key: str(value) for key, value in target.environment.items()}
        host = {} if target.contact_address else {"host": get_ip()}
        security = certified(self.handout)
        try:
            Project.here(folder, target.code).hand_out(self.handout)
            super().__init__(
                CloudLauncher(fleet, self.handout, environment),
                templates,
                security=security,
                scheduler={"protocol": "tls", "port": target.port or 0, **host},
                allowed_failures=allowed_failures,
                name=name,
            )
        except BaseException:
            forget(self.handout)
            raise
        if target.contact_address:
            self.scheduler.contact_address = contact(target.contact_address, self.scheduler.address)

    async def _end(self) -> None:
        try:
            await super()._end()
        finally:
            forget(self.handout)


def build(fleet: Fleet, target: AwsTarget | GcpTarget, spec: DeploymentSpec, run: str) -> CloudCluster:
    home = Path(spec.run_folder) if spec.run_folder is not None else Path(".scalable") / target.provider / run
    return CloudCluster(
        fleet,
        target,
        home.resolve(),
        Path(spec.folder).expanduser().resolve(),
        spec.components.values(),
        name=spec.project,
        allowed_failures=spec.policies.retry.times,
    )
