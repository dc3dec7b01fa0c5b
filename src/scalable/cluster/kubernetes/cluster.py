"""``KubernetesCluster``: a scheduler here, workers as pods of one namespace, counted by tag."""

from __future__ import annotations

import tempfile
import uuid
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from distributed.security import Security

from scalable.cluster.base import DeploymentSpec, WorkerTemplate
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.kubernetes import objects
from scalable.cluster.kubernetes.api import Cluster
from scalable.cluster.kubernetes.launcher import KubernetesLauncher
from scalable.cluster.kubernetes.provider import inside, metrics_port, own_address, own_pod
from scalable.cluster.kubernetes.reach import Directly, Reach, ThroughRelay
from scalable.cluster.network import contact
from scalable.cluster.security import certified
from scalable.errors import UsageError
from scalable.manifest.targets import KubernetesTarget
from scalable.worker.project import ProjectCode


class KubernetesCluster(TaggedCluster):
    """One pod per worker. Nothing is created before the first worker is asked for."""

    def __init__(self, spec: DeploymentSpec, *, replace: bool = True) -> None:
        target = spec.target_as(KubernetesTarget)
        self.project = Path(spec.folder).expanduser().resolve()
        self.code = target.code
        site = objects.KubernetesSite.of(spec, uuid.uuid4().hex[:8])
        clients = spec.policies.worker_clients == "allowed"
        security, self.files = handed_out(self.project, target.code, worker_clients=clients)
        within = inside(target)
        reach: Reach = Directly() if within or target.contact_address else ThroughRelay(security)
        launcher = KubernetesLauncher(
            Cluster(target.namespace, file(target.kubeconfig), target.context),
            site,
            reach=reach,
            handout=self.files,
            run_folder=spec.run_folder,
            own_pod=own_pod() if within else None,
        )
        super().__init__(
            launcher,
            spec.components.values(),
            security=security,
            scheduler={"protocol": "tls", **listening(target, within=within)},
            replace=replace,
            allowed_failures=spec.policies.retry.times,
            name=spec.project,
        )
        if target.contact_address:
            self.scheduler.contact_address = contact(target.contact_address, self.scheduler.address)

    def add_template(self, template: WorkerTemplate) -> None:
        """Define a kind; a preload script of the project is handed to pods whose image lacks the project."""
        super().add_template(changed(template, preload_script=self.found_preload(template)))

    def found_preload(self, template: WorkerTemplate) -> str | None:
        given = template.preload_script
        if self.code != "upload" or given is None or not given.endswith(".py"):
            return given  # a module, or a file of the image
        file = self.project / given
        if not file.is_file():
            raise UsageError(f"{template.tag}: the preload script {file} does not exist")
        name = f"preload-{objects.label(template.tag)}.py"
        assert isinstance(self.launcher, KubernetesLauncher)
        self.launcher.handout[name] = file.read_bytes()
        return f"{objects.HANDOUT}/{name}"

    async def _close(self) -> None:
        assert isinstance(self.launcher, KubernetesLauncher)
        self.launcher.begin_closing()
        await super()._close()


def handed_out(project: Path, code: str, *, worker_clients: bool = False) -> tuple[Security, dict[str, bytes]]:
    """Make certificates and what pods get in their Secret; nothing of that stays on this machine's disk."""
    with tempfile.TemporaryDirectory() as folder:
        security = certified(Path(folder), worker_clients=worker_clients)
        ProjectCode.of_folder(project, code).hand_out(Path(folder))
        return security, {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def file(written: str | None) -> str | None:
    return str(Path(written).expanduser().resolve()) if written else None


def listening(target: KubernetesTarget, *, within: bool) -> dict[str, Any]:
    """Return where the scheduler listens: for pods, for those who know the contact address, or for the relay."""
    if within:
        host, shown_on = own_address(), metrics_port()
        shown = {"dashboard_address": f":{shown_on}"} if shown_on is not None else {}
        return {"host": f"[{host}]" if ":" in host else host, **shown}
    if target.contact_address:
        port = target.contact_address.rpartition(":")[2]
        return {"port": int(port)} if port.isdecimal() else {}
    return {"host": "127.0.0.1"}
