"""Workers as pods: what is created, what is said of them, and that nothing stays."""

from __future__ import annotations

import asyncio

from scalable.cluster.base import WorkerTemplate
from scalable.cluster.kubernetes.launcher import KubernetesLauncher
from scalable.cluster.kubernetes.objects import KubernetesSite
from scalable.cluster.kubernetes.pods import WorkerPod
from scalable.planning.places import WorkerPlace
from scalable.planning.resources import Size
from scalable.quantities import Cpu, Memory
from tests.helpers.cluster.kubernetes.server import NAMESPACE

SCHEDULER = "tls://10.0.0.1:8786"

SIZE = Size(Cpu.of(2), Memory.parse("2GiB"))

SITE = KubernetesSite(
    run="r1", namespace=NAMESPACE, image="lab/work:1.0", places={"small": WorkerPlace("compute", SIZE, SIZE)}
)

SMALL = WorkerTemplate("small", cpus=2, memory=Memory.parse("2GiB"))


async def launched(launcher: KubernetesLauncher, *names: str) -> list[WorkerPod]:
    found = await asyncio.gather(*(launcher.launch(name, SMALL, SCHEDULER) for name in names))
    return [one for one in found if isinstance(one, WorkerPod)]
