"""A manifest's wishes about running in a cluster by itself, checked before anything is written.

The manifest goes into a ConfigMap as it stands, except for image and namespace, which are written out. Variables in it
that the target's ``env`` does not give come from one Secret that only the driver sees.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from scalable.cluster.base import DeploymentSpec
from scalable.cluster.kubernetes.objects import KubernetesSite, amounts, text
from scalable.deploy import egress
from scalable.deploy.egress import Destination
from scalable.deploy.source import STORE, WRITTEN_OUT, Source
from scalable.errors import UsageError
from scalable.findings import Finding
from scalable.manifest import Loaded
from scalable.manifest.models import Manifest
from scalable.manifest.targets import KubernetesTarget, SecretKey
from scalable.manifest.validation import ManifestError, ValidationReport
from scalable.planning.resources import Size
from scalable.quantities import Cpu, Memory
from scalable.store.errors import StoreUrlError
from scalable.store.tracking.tracker import VARIABLE as TRACKING
from scalable.store.urls import SQLITE, scheme_of
from scalable.wording import undefined

HOME = "/opt/project"
"""Where the image has the project, and the driver its manifest."""
STATE = f"{HOME}/.scalable"
DRIVER_SIZE = Size(
    Cpu.of(1), Memory.parse("2GiB")
)  # it plans, holds the scheduler, and keeps rows on their way to the store
API_SERVER_OPEN = (
    "the API server: its address is not known here, so the driver may connect to every address on 443 and 6443; "
    "--api-server ADDRESS:PORT narrows it (kubectl get endpointslices --selector kubernetes.io/service-name=kubernetes)"
)
DEFAULT_ACCOUNT = (
    "workers run as the namespace's default account, without a token; worker_service_account: NAME gives them their own"
)
STORE_REMEDY = f"write store: ${{{STORE}}}, which then comes from a Secret, or claim: NAME in the target for a volume"
MOST_TEXT = 200_000  # bytes of a manifest; kubectl keeps a second copy in an annotation of 256 KiB


@dataclass(frozen=True, slots=True)
class Deployment:
    """All that is rendered. In a chart some of its texts are the chart's placeholders."""

    project: str
    """Part of objects' names."""
    target: str
    overlay: str | None
    sweep: str | None
    """Nothing where the manifest's tasks are run."""
    job: str
    namespace: str
    image: str
    secret: str
    """Holds the variables that only the driver needs."""
    variables: tuple[str, ...]
    """Which those are."""
    driver: Mapping[str, str]
    """CPU and memory of its pod, as Kubernetes writes them."""
    text: str
    """The manifest in the cluster."""
    source: Source
    """Where it comes from."""
    manifest: Manifest
    site: KubernetesSite
    destinations: tuple[Destination, ...]
    api_server: Destination | None
    prometheus: str | None
    """The namespace whose pods may ask the driver for its figures."""

    @property
    def settings(self) -> KubernetesTarget:
        target = self.manifest.targets[self.target]
        assert isinstance(target, KubernetesTarget)
        return target

    @property
    def secrets(self) -> dict[str, tuple[str, ...]]:
        """Secrets that must exist, with the keys that are read from each."""
        names: dict[str, list[str]] = {self.secret: list(self.variables)} if self.variables else {}
        for value in self.settings.env.values():
            if isinstance(value, SecretKey):
                names.setdefault(value.secret, []).append(value.key)
        return {name: tuple(dict.fromkeys(keys)) for name, keys in names.items()}

    @property
    def notes(self) -> list[str]:
        """Notes for a person who trusts what was written."""
        notes = [destination.note for destination in self.destinations if destination.note]
        if self.api_server is None:
            notes.append(API_SERVER_OPEN)
        if self.settings.worker_service_account is None:
            notes.append(DEFAULT_ACCOUNT)
        if self.manifest.artefacts.startswith("/"):
            notes.append(f"artefacts: {self.manifest.artefacts} must be a folder that every pod sees")
        return notes


def deployment(
    source: Source, loaded: Loaded, sweep: str | None, api_server: str | None = None, prometheus: str | None = None
) -> Deployment:
    """Raises a ``ManifestError`` with all that keeps the manifest from being run in a cluster, each at its place."""
    manifest, name = loaded.manifest, source.target
    target = manifest.targets[name]
    assert isinstance(target, KubernetesTarget)
    sweep = chosen(manifest, sweep)
    destinations: list[Destination] = []
    findings = [*source.secrets(), *unfit(source, manifest, target), *connected(source, manifest, target, destinations)]
    if findings:
        raise ManifestError(ValidationReport.of(findings), {source.file: source.text})
    assert target.image is not None
    site = KubernetesSite.of(DeploymentSpec.from_manifest(manifest, target_name=name), "run")
    project = dns_label(manifest.project.name)
    size = Size(target.scheduler_cpu or DRIVER_SIZE.cpu, target.scheduler_memory or DRIVER_SIZE.memory)
    return Deployment(
        project=project,
        target=name,
        overlay=source.overlay,
        sweep=sweep,
        job=dns_label(f"{project}-{sweep or 'tasks'}"),
        namespace=target.namespace,
        image=target.image,
        secret=f"{project}-driver",
        variables=source.from_secret,
        driver=amounts(size),
        text=source.with_values({key: getattr(target, key) for key in WRITTEN_OUT}),
        source=source,
        manifest=manifest,
        site=site,
        destinations=tuple(destinations),
        api_server=egress.named_destination(api_server, "--api-server") if api_server else None,
        prometheus=namespace_name(prometheus, "--prometheus") if prometheus else None,
    )


def chosen(manifest: Manifest, sweep: str | None) -> str | None:
    """Return the sweep that is run; nothing where the manifest has tasks instead."""
    if sweep is not None:
        if sweep not in manifest.sweeps:
            raise UsageError(undefined("sweep", sweep, manifest.sweeps))
        return sweep
    if any(task.run is not None for task in manifest.tasks.values()):
        return None
    if len(manifest.sweeps) != 1:
        names = ", ".join(manifest.sweeps)
        nothing = "the manifest has neither sweeps nor tasks to run; add one"
        raise UsageError(f"name the sweep to run: --sweep S ({names})" if names else nothing)
    return next(iter(manifest.sweeps))


def unfit(source: Source, manifest: Manifest, target: KubernetesTarget) -> Iterator[Finding]:
    """Yield what a laptop may do without and a namespace of its own may not."""
    if target.image is None:
        message = "no image is named for driver and workers"
        yield source.error("no-image", "image", message, "write image: REGISTRY/NAME:VERSION")
    if target.namespace == "default":
        message = "quotas and policies of a run would hold for all of the namespace default"
        yield source.error("default-namespace", "namespace", message, "name one of its own, e.g. namespace: lab")
    for key in ("kubeconfig", "context", "contact_address"):
        if getattr(target, key) is not None:
            message = "it is about a driver on your machine, and this one runs in the cluster"
            yield source.error("laptop-only", key, message, "remove it, or write another target")
    folder = "://" not in manifest.artefacts and known_text(source, manifest.artefacts) is not None
    if folder and not manifest.artefacts.startswith("/"):
        message = f"{manifest.artefacts} is a folder, and pods share none"
        yield source.error("no-shared-folder", ("artefacts",), message, "write a URL, e.g. artefacts: s3://bucket/lab")
    if len(source.text.encode()) > MOST_TEXT:
        message = f"the manifest is too large for a ConfigMap; at most {MOST_TEXT // 1000} kB"
        yield source.error("too-large", (), message, "move data out of it")


def connected(
    source: Source, manifest: Manifest, target: KubernetesTarget, destinations: list[Destination]
) -> Iterator[Finding]:
    """Fill in where pods connect to; yield what cannot be reached or would be lost."""
    env = {name: text(value) for name, value in target.env.items() if not isinstance(value, SecretKey)}
    known = {**{name: value for name, value in source.local.items() if value and name in source.secret_names}, **env}
    url = known.get(STORE) if STORE in {*source.secret_names, *env} else known_text(source, manifest.store)
    try:
        store = egress.store_destination(url)
        if store is not None:
            destinations.append(store)
        elif url is not None and (problem := lost(url, target)):
            yield source.error("rows-lost", ("store",), problem, STORE_REMEDY)
    except StoreUrlError as error:
        yield source.error("bad-store", ("store",), str(error))
    places: list[tuple[tuple[str | int, ...], str | None, Callable[[str], Destination | None]]] = [
        (("artefacts",), manifest.artefacts, lambda url: egress.artefacts_destination(url, known)),
        (("tracking",), manifest.tracking or known.get(TRACKING), tracked),
        *(
            ((*source.target_path, "egress", at), written, egress.named_destination)
            for at, written in enumerate(target.egress)
        ),
    ]
    for place, address, destination in places:
        if address is not None and known_text(source, address) is None:
            destinations.append(
                Destination(str(place[0]), None, egress.PORTS["https"], workers=destination is not tracked)
            )
            continue
        try:
            if address is not None and (to := destination(address)) is not None:
                destinations.append(to)
        except UsageError as error:
            yield source.error("bad-address", place, str(error))


def tracked(url: str) -> Destination | None:
    return egress.web_destination("tracking", url, workers=False)


def known_text(source: Source, value: str | None) -> str | None:
    """Return a text of the manifest; nothing where it is only known in the cluster."""
    return None if value is None or source.UNKNOWN in value else value


def lost(url: str, target: KubernetesTarget) -> str:
    """Return why the rows of a store in a file would go with the driver's pod; empty if they would not."""
    if scheme_of(url) not in SQLITE:
        return ""
    if target.claim is None:
        return "rows in a file would be lost with the driver's pod"
    file = url.partition("://")[2]
    inside = file.startswith((f"/{STATE.rpartition('/')[2]}/", f"/{STATE}/"))
    return "" if inside and ".." not in file else f"the claim {target.claim} is mounted at .scalable; this lies outside"


def namespace_name(name: str, place: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name):
        raise UsageError(f"{place} {name} is no namespace; write its name, e.g. {place} monitoring")
    return name


def dns_label(name: str) -> str:
    """Return a name as Kubernetes takes it for any object."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50].rstrip("-")
    if not label:
        raise UsageError(f"{name!r} has no letter or digit that a name in Kubernetes may have; use another name")
    return label
