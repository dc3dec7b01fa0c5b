"""Starts workers as pods, knows how all of them are from two watches, and leaves nothing behind.

With the first worker come a parent object, which owns all others, and a Secret with what workers need. Closing deletes
the parent and waits until the pods are gone. If this process is killed, the reaper deletes the parent; if this machine
dies too, workers find no scheduler and end by themselves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scalable.cluster import cleanup
from scalable.cluster.base import Launched, LaunchRefused, Node, WorkerTemplate
from scalable.cluster.kubernetes import objects, reasons
from scalable.cluster.kubernetes.api import ApiError, Cluster, Kube, Object
from scalable.cluster.kubernetes.pods import WorkerPod
from scalable.cluster.kubernetes.reach import Directly, Reach
from scalable.cluster.kubernetes.watch import PodWatch
from scalable.cluster.remote import RemoteLauncher, begun
from scalable.errors import UsageError
from scalable.observe.folders import RunFolder
from scalable.worker.options import CONNECT_WITHIN_S, WorkerOptions
from scalable.worker.reaper import Reaper
from scalable.worker.runner.memory import told_in_pod

logger = logging.getLogger("scalable")

LOOK_EVERY_S = 0.5  # at what the watches brought; that costs nothing
KNOWN_WITHIN_S = 30.0  # the first list of pods
GONE_WITHIN_S = 60.0  # all pods after the parent's end
FORCED_AFTER_S = 45.0  # later than any worker's grace: a pod that is still there is on a node that does not answer
CREATED_AT_ONCE = 20  # requests in flight; an API server has others to serve
FOLLOWED_AT_ONCE = 40  # logs that are copied while pods run, a connection each; of others the end is read


class KubernetesLauncher(RemoteLauncher):
    """The pods of one cluster."""

    backend = "kubernetes"

    def __init__(
        self,
        cluster: Cluster,
        site: objects.KubernetesSite,
        *,
        reach: Reach | None = None,
        handout: Mapping[str, bytes] | None = None,
        run_folder: str | None = None,
        own_pod: str | None = None,
        connect_within: float = CONNECT_WITHIN_S,
    ) -> None:
        """Take the parts; ``own_pod`` is the name of the pod that this process runs in, if it does."""
        super().__init__()
        self.kube = Kube(cluster)
        self.site = site
        self.reach = reach or Directly()
        self.handout = {**(handout or {}), **self.reach.files}
        """Files for workers; complete when the first one is launched."""
        self.run = RunFolder(Path(run_folder)) if run_folder else None
        self.own_pod = own_pod
        self.connect_within = connect_within
        self.reaper = Reaper()
        self.board = PodWatch(self.kube, site.name, site.selector, self.pool_of)
        self.pods: dict[str, WorkerPod] = {}
        """All that may still be in the cluster's hands, by the pod's name."""
        self.workers: dict[str, WorkerPod] = {}
        """By the worker's name, also after its end."""
        self.creating: set[str] = set()
        self.turns = asyncio.Semaphore(CREATED_AT_ONCE)
        self.preparing = asyncio.Lock()
        self.ready = False
        self.begun = False
        """Something of this run may be in the cluster."""
        self.closing = False
        self.background: set[asyncio.Task[Any]] = set()

    @property
    def trouble(self) -> str:
        """Return why the cluster does not answer, if it does not."""
        return self.kube.trouble or str(self.board.refused or "") or self.reach.trouble

    def check(self, template: WorkerTemplate) -> str:
        return self.site.unfit(template)

    def pool_of(self, tag: str) -> str:
        """Return the pool of a tag as its label has it."""
        place = next((place for name, place in self.site.places.items() if objects.label(name) == tag), None)
        return (place.pool if place else None) or ""

    def options(self, name: str, template: WorkerTemplate, scheduler: str) -> WorkerOptions:
        return replace(
            template.options(name, scheduler),
            memory=told_in_pod(template.memory.bytes) if template.memory else None,
            handout=objects.HANDOUT,
            scratch=objects.SCRATCH,
            connect_within=self.connect_within,
            grace=self.site.grace,
        )

    async def launch(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        try:
            return await super().launch(name, template, scheduler)
        except ApiError as error:
            raise refused(error) from None  # one that is there all the same is found by the watch, and deleted
        except UsageError as error:
            raise LaunchRefused(str(error), definite=True) from None

    async def start(self, name: str, template: WorkerTemplate, scheduler: str) -> Launched:
        async with self.preparing:
            if not self.ready:
                await self.prepare()
        contact = await self.reach.address(scheduler, self)
        body = objects.worker_pod(self.site, template, name, self.options(name, template, contact).arguments())
        called = body["metadata"]["name"]
        self.creating.add(called)
        try:
            async with self.turns:
                if self.closing:
                    raise LaunchRefused("the cluster is closed")
                self.board.seen(await self.kube.create("pods", body))
            log = self.run.log(name) if self.run else None
            pod = self.pods[called] = self.workers[name] = WorkerPod(called, self.kube, self.board, log, contact)
            return pod
        finally:
            self.creating.discard(called)

    async def prepare(self) -> None:
        """Make what all workers need, once. After a failure the next worker has it tried again."""
        if self.closing:
            raise LaunchRefused("the cluster is closed")
        self.insure()
        if self.own_pod and self.site.driver is None:
            self.site = replace(self.site, driver=await self.driver(self.own_pod))
        if self.site.owner is None:
            self.begun = True
            try:
                made = await self.ours("configmaps", objects.parent(self.site))
            except ApiError as error:
                self.begun = error.unclear  # what was plainly refused need not be deleted, nor may it be
                raise
            owner = objects.Owner("ConfigMap", self.site.name, made["metadata"]["uid"])
            self.site = replace(self.site, owner=owner)
        await self.ours("secrets", objects.handout_secret(self.site, self.handout))
        await self.board.start(KNOWN_WITHIN_S)
        self.ready = True

    async def ours(self, resource: str, body: Object) -> Object:
        """Make it, unless an earlier try did; the name is that of this run alone."""
        try:
            return await self.kube.create(resource, body)
        except ApiError as error:
            if error.status != 409:
                raise
        existing = None if resource == "secrets" else await self.kube.get(resource, body["metadata"]["name"])
        return existing or body

    async def driver(self, name: str) -> objects.Owner | None:
        pod = await self.kube.get("pods", name)
        return objects.Owner("Pod", name, pod["metadata"]["uid"]) if pod else None

    def insure(self) -> None:
        """Have it cleaned up if this process is killed."""
        self.reaper.on_death(cleanup.command("kubernetes", self.site.name, *self.kube.cluster.arguments()))

    async def poll(self, launched: list[Launched]) -> float:
        """Look at what the watches brought; asks only for the last words of pods that have ended."""
        pods = [pod for pod in launched if isinstance(pod, WorkerPod)]
        await asyncio.gather(*(pod.update() for pod in pods))
        followed = sum(1 for pod in self.pods.values() if pod.following and not pod.following.done())
        for pod in pods:
            if pod.printing and followed < FOLLOWED_AT_ONCE and pod.following is None:
                pod.follow()
                followed += 1
        for name in [name for name in self.pods if name in self.board.gone]:
            del self.pods[name]
        if self.ready:
            self.keep(self.board.look_at_nodes())
            self.turn_away()
        return LOOK_EVERY_S

    def turn_away(self) -> None:
        """Delete pods that nobody waits for: their creation had no clear answer, and others came instead."""
        known = self.pods.keys() | self.creating | self.board.gone.keys()
        for name in self.board.pods.keys() - known:
            if "scalable/worker" in self.board.pods[name]["metadata"].get("labels", {}):
                self.pods[name] = WorkerPod(name, self.kube, self.board)
                self.keep(self.pods[name].stop(gently=False))

    def moved(self, host: str) -> None:
        """Give up pods that have not started and would look for another relay than the one at this host."""
        for pod in self.pods.values():
            if pod.contact and urlsplit(pod.contact).hostname != host and pod.leave(f"the relay is now at {host}"):
                self.keep(pod.stop(gently=False))

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        begun(work, self.background)

    # On which machines they are

    def nodes(self) -> Sequence[Node]:
        return list(self.board.machines.values())

    def node_of(self, worker: str) -> str | None:
        return self.workers[worker].node if worker in self.workers else None

    # The end

    def begin_closing(self) -> None:
        """Have everybody who waits for the cluster stop waiting."""
        self.closing = True
        self.board.tell()

    async def close(self) -> None:
        """Leave nothing in the cluster; if that is not confirmed, the reaper goes on trying."""
        self.begin_closing()
        if self.starting:
            await asyncio.gather(*self.starting, return_exceptions=True)
        await self.reach.close()
        left = await self.clear() if self.begun and self.kube.answered else ""
        pods = {*self.pods.values(), *self.workers.values()}
        tasks = [task for pod in pods for task in (pod.following, pod.ending) if task] + [*self.background]
        await self.kube.calm()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.board.close()
        await self.kube.close()
        if left:
            logger.error("%s; a process that stays behind goes on trying to delete the rest", left)
            self.reaper.leave()
        else:
            self.reaper.done()

    async def clear(self) -> str:
        """Delete the parent and with it all it owns; says what is left of it."""
        began = time.monotonic()
        forced: set[str] = set()
        try:
            await self.kube.delete("configmaps", self.site.name, within=GONE_WITHIN_S / 2)
            while names := await self.there():
                if (took := time.monotonic() - began) > GONE_WITHIN_S:
                    return f"pods {' '.join(sorted(names))} are still there after {GONE_WITHIN_S:g} s"
                if took > FORCED_AFTER_S and not names <= forced:  # their node does not answer
                    await asyncio.gather(*(self.kube.delete("pods", name, grace=0) for name in names - forced))
                    forced |= names
                await self.board.until(lambda: all(name in self.board.gone for name in self.board.pods), LOOK_EVERY_S)
        except ApiError as error:
            return f"{self.site.name} in namespace {self.site.namespace} could not be deleted: {error}"
        return ""

    async def there(self) -> set[str]:
        return {pod["metadata"]["name"] for pod in (await self.kube.find("pods", labels=self.site.selector))[0]}


def refused(error: ApiError) -> LaunchRefused:
    return reasons.refusal(error.status, error.body) if error.status else LaunchRefused(str(error))
