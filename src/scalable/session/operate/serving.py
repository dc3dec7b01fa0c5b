"""The session's figures at /metrics, on the HTTP server that Dask's scheduler has anyway, and where to find it.

That server listens on this machine only, unless the manifest gives Dask's dashboard another address. What Dask itself
shows at /metrics, which it does where a dashboard is asked for, is then at /metrics/dask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tornado.web import RequestHandler

from scalable.observe.metrics import CONTENT_TYPE, exposition

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.session.driver.driver import Driver
    from scalable.session.operate.measures import Measures

PATH, DASKS = "/metrics", "/metrics/dask"
LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::", "")


class MetricsHandler(RequestHandler):
    def initialize(self, measures: Measures) -> None:
        self.measures = measures

    def get(self) -> None:
        self.set_header("Content-Type", CONTENT_TYPE)
        self.write(exposition(self.measures.samples()).encode("utf-8", "backslashreplace"))


@dataclass(frozen=True, slots=True)
class Served:
    address: str
    """Host and port, as a client on this machine reaches it."""
    labels: Mapping[str, str]

    @property
    def url(self) -> str:
        return f"http://{self.address}{PATH}"

    def targets(self, cluster: TaggedCluster) -> list[dict[str, Any]]:
        """For Prometheus on this machine: this process, and the workers that are processes of this machine, too."""
        found = [{"targets": [self.address], "labels": {**self.labels, "role": "driver"}}]
        here = cluster.scheduler.ip
        ports = [
            state.services.get("dashboard")
            for member in list(cluster.members.values())
            if (state := cluster.scheduler.workers.get(member.address)) is not None
            and state.host in (here, LOOPBACK)
            and not str(member.address).startswith("inproc")
        ]
        if local := [f"{LOOPBACK}:{port}" for port in ports if port]:
            found.append({"targets": sorted(local), "labels": {**self.labels, "role": "worker"}})
        return found


def serve(driver: Driver, labels: Mapping[str, str]) -> Served:
    """From now on, until the scheduler closes."""
    scheduler = driver.cluster.scheduler
    application = scheduler.http_application
    dasks = [(rule.target, rule.target_kwargs) for rule in application.wildcard_router.rules if matches(rule)]
    handlers = [(DASKS, target, arguments) for target, arguments in dasks[:1]]
    application.add_handlers(".*$", [(PATH, MetricsHandler, {"measures": driver.measures}), *handlers])
    host, port = scheduler.http_server.address, scheduler.http_server.port
    host = LOOPBACK if host in EVERYWHERE else host
    return Served(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", labels)


def matches(rule: Any) -> bool:
    regex = getattr(rule.matcher, "regex", None)
    return regex is not None and regex.pattern.rstrip("$") == PATH
