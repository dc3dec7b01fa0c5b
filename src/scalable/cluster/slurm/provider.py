"""A target on a Slurm cluster; ``SlurmCluster``: a scheduler here, workers as Slurm jobs, counted by tag."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from scalable.cluster.base import ClusterHandle, DeploymentSpec, WorkerTemplate
from scalable.cluster.cluster import TaggedCluster
from scalable.cluster.network import contact, no_such_interface, no_such_port
from scalable.cluster.provider import TaggedProvider
from scalable.cluster.security import certified, forget
from scalable.cluster.slurm import script
from scalable.cluster.slurm.launcher import SlurmLauncher
from scalable.errors import QuantityError, UsageError
from scalable.findings import Finding
from scalable.manifest.models import Component
from scalable.manifest.targets import SlurmTarget
from scalable.manifest.validation import ValidationReport
from scalable.planning.resources import CostEstimate, ScalePlan
from scalable.worker.options import CONNECT_WITHIN_S, GRACE_S
from scalable.worker.project import ProjectCode


class SlurmProvider(TaggedProvider):
    """Workers as batch jobs of a Slurm cluster."""

    name = "slurm"

    def validate(self, spec: DeploymentSpec) -> ValidationReport:
        """Return what can be known without asking Slurm; ``scalable doctor`` asks it too."""
        target = spec.target_as(SlurmTarget)
        path = f"targets.{spec.target_name}"
        findings = []
        if target.interface and (problem := no_such_interface(target.interface)):
            findings.append(Finding.error("no-interface", f"{path}.interface", problem, "write one of those"))
        if shutil.which("sbatch") is None:
            text = "sbatch is not installed on this machine"
            findings.append(Finding.error("no-slurm", path, text, "run this on a login node of the cluster"))
        contained = target.container_runtime != "none" and any(part.image for part in spec.components.values())
        if contained and shutil.which(target.container_runtime) is None:
            text = f"{target.container_runtime} is not installed on this machine; compute nodes may have it"
            findings.append(Finding.warning("no-runtime", f"{path}.container_runtime", text))
        for tag, part in spec.components.items():
            if part.image and target.container_runtime == "none":
                text = f"{tag} has an image, but container_runtime is none"
                findings.append(Finding.warning("image-ignored", f"components.{tag}.image", text, "write apptainer"))
            elif part.image and script.is_shell(part.preload_script):
                text = f"the shell script of {tag} runs outside its image"
                findings.append(Finding.warning("outside-image", f"components.{tag}.preload_script", text))
            elif part.image and (part.conda or target.conda):
                path_of_conda = f"components.{tag}.conda" if part.conda else f"{path}.conda"
                text = f"a conda environment is activated outside the image of {tag}, whose Python starts the worker"
                remedy = "make it part of the image, or leave image out"
                findings.append(Finding.warning("outside-image", path_of_conda, text, remedy))
            elif target.python and (part.conda or target.conda):
                text = f"workers are started with {target.python}, not with the Python of the conda environment"
                findings.append(Finding.warning("python-set", f"{path}.python", text, "leave python out"))
        return ValidationReport.of(findings)

    def build_cluster(self, spec: DeploymentSpec) -> ClusterHandle:
        target = spec.target_as(SlurmTarget)
        cluster = SlurmCluster(
            target.queue,
            target.account,
            target.walltime,
            target.interface,
            qos=target.qos,
            constraint=target.constraint,
            reservation=target.reservation,
            workers_per_job=target.workers_per_job,
            nodes_per_job=target.nodes_per_job,
            exclusive=target.exclusive,
            backlog=target.backlog,
            name=spec.project,
            logs_location=target.logs_location,
            container_runtime=target.container_runtime,
            sbatch=target.sbatch or (),
            modules=target.modules or (),
            conda=target.conda,
            setup=target.setup,
            python=target.python,
            port=target.port or 0,
            contact_address=target.contact_address,
            code=target.code,
            folder=spec.folder,
            run_folder=spec.run_folder,
            templates=spec.components.values(),
            allowed_failures=spec.policies.retry.times,
            worker_clients=spec.policies.worker_clients == "allowed",
        )
        return self.handle(cluster, queue=target.queue)

    def estimate_cost(self, spec: DeploymentSpec, plan: ScalePlan) -> CostEstimate | None:
        return self.cost_by_cpu(spec.target_as(SlurmTarget).cpu_price, spec, plan)


Model = TypeVar("Model", bound=BaseModel)


class SlurmCluster(TaggedCluster):
    """One batch job per worker, or jobs that hold several; one kind of worker per container.

    >>> cluster = SlurmCluster(queue="batch", account="GCIMS", walltime="04:00:00", interface="ib0")  # doctest: +SKIP
    >>> cluster.add_container(tag="demeter", cpus=10, memory="20G")  # doctest: +SKIP
    >>> cluster.add_workers(n=5, tag="demeter")  # doctest: +SKIP

    A worker that does not reach the scheduler within ``connect_within`` seconds ends and says why. ``grace`` seconds
    before the walltime ends, a worker takes no more work; what it runs may finish until then, the rest goes elsewhere.

    ``workers_per_job`` workers of one kind share a batch job, spread over ``nodes_per_job`` nodes; with ``exclusive``
    jobs have whole nodes and hold as many workers as fit, if nothing else is said. Workers of one ``add_workers`` call
    are put into jobs together. At most ``backlog`` jobs wait in Slurm at a time.

    >>> cluster = SlurmCluster(queue="batch", workers_per_job=24, nodes_per_job=2)  # doctest: +SKIP
    >>> cluster.add_workers(n=48, tag="demeter")  # two batch jobs  # doctest: +SKIP
    """

    def __init__(
        self,
        queue: str | None = None,
        account: str | None = None,
        walltime: str | None = None,
        interface: str | None = None,
        *,
        partition: str | None = None,
        qos: str | None = None,
        constraint: str | None = None,
        reservation: str | None = None,
        workers_per_job: int | None = None,
        nodes_per_job: int = 1,
        exclusive: bool = False,
        backlog: int | None = None,
        name: str | None = None,
        logs_location: str | Path | None = None,
        container_runtime: str = "apptainer",
        sbatch: Iterable[str] = (),
        modules: Iterable[str] = (),
        conda: str | None = None,
        setup: str | None = None,
        python: str | None = None,
        port: int = 0,
        contact_address: str | None = None,
        code: str = "shared",
        folder: str | Path | None = None,
        run_folder: str | Path | None = None,
        connect_within: float = CONNECT_WITHIN_S,
        grace: float = GRACE_S,
        templates: Iterable[WorkerTemplate] = (),
        replace: bool = True,
        allowed_failures: int = 1,
        worker_clients: bool = False,
    ) -> None:
        modules = (modules,) if isinstance(modules, str) else tuple(modules)
        own: dict[str, Any] = {"queue": queue, "account": account, "walltime": walltime, "interface": interface}
        own |= {"qos": qos, "constraint": constraint, "reservation": reservation, "backlog": backlog, "code": code}
        own |= {"workers_per_job": workers_per_job, "nodes_per_job": nodes_per_job, "exclusive": exclusive}
        own |= {"partition": partition, "sbatch": list(sbatch) or None, "container_runtime": container_runtime}
        own |= {"modules": list(modules) or None, "conda": conda, "setup": setup}
        target = as_in_a_manifest(SlurmTarget, provider="slurm", **own)
        if interface is not None and (problem := no_such_interface(interface)):
            raise UsageError(f"interface: {problem}")
        if problem := no_such_port(port):
            raise UsageError(f"port: {problem}")
        unique = uuid.uuid4().hex[:8]
        home = Path(run_folder) if run_folder is not None else Path(".scalable") / "slurm" / unique
        self.project = Path(folder or ".").expanduser().resolve()
        self.handout = home.resolve() / "handout"
        self.code = code
        site = changed(
            script.SlurmSite.of(target, self.project),
            python=python,
            handout=str(self.handout),
            connect_within=connect_within,
            grace=grace,
        )
        logs = Path(logs_location).expanduser() if logs_location else home / "logs"
        launcher = SlurmLauncher(site, logs.resolve(), unique)
        security = certified(self.handout, worker_clients=worker_clients)
        try:
            ProjectCode.of_folder(self.project, code).hand_out(self.handout)
            super().__init__(
                launcher,
                templates,
                security=security,
                scheduler={"protocol": "tls", "interface": interface, "port": port},
                replace=replace,
                allowed_failures=allowed_failures,
                name=name or f"slurm-{unique}",
            )
        except BaseException:
            forget(self.handout)
            raise
        if contact_address:
            self.scheduler.contact_address = contact(contact_address, self.scheduler.address)

    def add_container(
        self,
        tag: str,
        cpus: int = 1,
        memory: str | None = None,
        dirs: Mapping[str, str] | None = None,
        path: str | None = None,
        preload_script: str | None = None,
        *,
        gpus: int = 0,
        slots: int = 1,
        env: Mapping[str, str] | None = None,
        modules: Iterable[str] = (),
        conda: str | None = None,
        setup: str | None = None,
        gpu_type: str | None = None,
        partition: str | None = None,
        account: str | None = None,
        qos: str | None = None,
        constraint: str | None = None,
        reservation: str | None = None,
        walltime: str | None = None,
    ) -> None:
        """Define a kind of worker: its size, the folders (host: container) and the image (``path``) it runs in.

        ``modules``, ``conda`` and ``setup`` are what its jobs do before the worker starts, as in a manifest.
        ``partition`` and what follows it overrule what the cluster says, for workers of this kind.
        """
        for name, value, least in (("cpus", cpus, 1), ("gpus", gpus, 0), ("slots", slots, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UsageError(f"{name} is {value!r}; write a whole number from {least}")
        if not isinstance(dirs, Mapping | None):
            raise UsageError(f"dirs is {dirs!r}; write by folder of the host where it is inside: {{'/data': '/data'}}")
        mounts = {str(host): str(inside) for host, inside in (dirs or {}).items()}
        surroundings: dict[str, Any] = {"mounts": mounts, "env": dict(env or {}), "image": path}
        surroundings |= {"preload_script": preload_script, "conda": conda, "setup": setup}
        surroundings["modules"] = (modules if isinstance(modules, str) else list(modules)) or None
        asked = {"partition": partition, "account": account, "qos": qos, "constraint": constraint}
        asked |= {"reservation": reservation, "walltime": walltime, "gpu_type": gpu_type}
        part = as_in_a_manifest(Component, cpus=cpus, memory=memory, gpus=gpus, **surroundings, **asked)
        self.add_template(WorkerTemplate.of(tag, part, slots))

    def add_template(self, template: WorkerTemplate) -> None:
        """Define a kind; files that it names are looked for in the project's folder."""
        super().add_template(
            changed(template, image=self.found_image(template), preload_script=self.found_preload(template))
        )

    def found_image(self, template: WorkerTemplate) -> str | None:
        if template.image is None or not script.is_file(template.image):
            return template.image
        return str(self.project / script.image(template.image))

    def found_preload(self, template: WorkerTemplate) -> str | None:
        """Return where nodes find the script; one that they cannot see is handed out to them."""
        given = template.preload_script
        if given is None or not given.endswith((".py", ".sh", ".bash")):
            return given  # a module
        file = self.project / Path(given).expanduser()
        if not file.exists():
            if file == Path(given):
                return given  # nodes may have it
            raise UsageError(f"{template.tag}: the preload script {file} does not exist")
        if self.code != "upload":
            return str(file)
        copy = self.handout / f"preload-{template.tag}{file.suffix}"
        shutil.copyfile(file, copy)
        return str(copy)

    def job_script(self, tag: str) -> str:
        """Return what is handed to sbatch for the next full job of a tag."""
        assert isinstance(self.launcher, SlurmLauncher)
        contact = self.scheduler.contact_address or self.scheduler.address
        return self.launcher.script(f"{tag}-{self._count}", self.template(tag), contact)

    async def _close(self) -> None:
        assert isinstance(self.launcher, SlurmLauncher)
        self.launcher.closing.set()  # whoever waits for Slurm to answer stops waiting
        await super()._close()

    async def _end(self) -> None:
        try:
            await super()._end()
        finally:
            forget(self.handout)


def as_in_a_manifest(model: type[Model], **values: Any) -> Model:
    """Check values by the manifest's model, which knows what may be written."""
    try:
        return model(**values)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        problem = wrong.get("ctx", {}).get("error") or f"{wrong['input']!r}: {wrong['msg'].lower()}"
        place = ".".join(str(part) for part in (*wrong["loc"], *getattr(problem, "at", ())))
        raise QuantityError(f"{place}: {problem}") from None
