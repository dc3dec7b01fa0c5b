"""The run itself: the manifest as a ConfigMap, and a Job whose pod is the driver.

A driver that is lost is started again and goes on from the rows that are in the store. One that came to its own end is
not, however that was: rows that failed have had their attempts, and who starts it anew gives them further ones.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from scalable.cluster.kubernetes.objects import SCRATCH, STAYS, beside_work, emptied, pod_spec
from scalable.cluster.kubernetes.provider import METRICS_PORT
from scalable.deploy.access import DRIVER, metadata
from scalable.deploy.deployment import HOME, STATE, Deployment
from scalable.deploy.document import Document
from scalable.manifest.targets import SecretKey
from scalable.quantities import Duration

FILE = "scalable.yaml"
RESTARTS = 1  # of a lost driver
KEPT_S = 86_400  # a day to look at its logs
CLOSING_S = 60  # for the driver to send workers away and write down how it ended
METRICS = 9790  # a port above those that Prometheus' own programs take
OWN_ENDS = [1, 2]  # exit statuses of a run that failed, and of a call that cannot work however often it is made
MYSELF = {
    "POD_NAME": "metadata.name", "POD_IP": "status.podIP",
    "HOLDER": "metadata.labels['batch.kubernetes.io/controller-uid']",
}  # fmt: skip
"""What a driver must know of its own pod: who owns what it makes, where workers reach it, and whose slot it joins when
it is started again."""

Object = dict[str, Any]


def manifest_map(deployment: Deployment) -> Document:
    what = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(deployment, config_name(deployment))}
    return Document({**what, "data": {FILE: deployment.text}}, ("The manifest; values of secrets are not in it.",))


def config_name(deployment: Deployment) -> str:
    return f"{deployment.project}-manifest"


def job(deployment: Deployment) -> Document:
    about = metadata(deployment, deployment.job, **{"scalable/part": "driver"})
    if deployment.sweep is not None:
        about["annotations"] = {"scalable/sweep": deployment.sweep}  # any text may be one, other than a label
    spec: Object = {
        "backoffLimit": RESTARTS,
        "podFailurePolicy": {
            "rules": [  # the first that fits counts: an evicted driver may fail at its end
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": "driver", "operator": "In", "values": OWN_ENDS},
                },
            ]
        },
        "ttlSecondsAfterFinished": KEPT_S,
    }
    if deployment.settings.walltime:
        spec["activeDeadlineSeconds"] = ceil(Duration.of_walltime(deployment.settings.walltime).seconds)
    scraped = {"scrape": "true", "port": str(METRICS), "path": "/metrics"} if deployment.prometheus else {}
    noted = {**STAYS, **{f"prometheus.io/{name}": value for name, value in scraped.items()}}
    inside = {"labels": about["labels"], "annotations": noted}
    spec["template"] = {"metadata": inside, "spec": driver_spec(deployment)}
    what = {"apiVersion": "batch/v1", "kind": "Job", "metadata": about}
    comment = "A lost driver is started once more and goes on from the store; an evicted one each time."
    return Document({**what, "spec": spec}, (comment,))


def driver_spec(deployment: Deployment) -> Object:
    site, target = deployment.site, deployment.settings
    env: dict[str, str | SecretKey] = dict(site.env)
    env |= {name: SecretKey(secret=deployment.secret, key=name) for name in deployment.variables}
    spec = pod_spec(
        site, "driver", deployment.image, command(deployment), env, requests=deployment.driver, limits=deployment.driver
    )
    empty = emptied(spec["containers"][0]["resources"]["limits"])
    state = {"persistentVolumeClaim": {"claimName": target.claim}} if target.claim else {"emptyDir": empty}
    spec |= {
        "serviceAccountName": DRIVER,
        "automountServiceAccountToken": True,  # the driver's alone: it makes pods
        "terminationGracePeriodSeconds": CLOSING_S,
        "volumes": [
            *({"name": name, "emptyDir": empty} for name in ("tmp", "scratch")),
            {"name": "state", **state},
            {"name": "manifest", "configMap": {"name": config_name(deployment)}},
        ],
    }
    spec["containers"][0] |= {
        "workingDir": HOME,
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "scratch", "mountPath": SCRATCH},
            {"name": "state", "mountPath": STATE},
            {"name": "manifest", "mountPath": f"{HOME}/{FILE}", "subPath": FILE, "readOnly": True},
        ],
    }
    myself = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in MYSELF.items()]
    spec["containers"][0]["env"] += myself
    if deployment.prometheus:
        spec["containers"][0]["env"].append({"name": METRICS_PORT, "value": str(METRICS)})
        spec["containers"][0]["ports"] = [{"name": "metrics", "containerPort": METRICS}]
    spec |= beside_work(site)  # nodes that go when there is no work must not wait for the driver
    return spec


def command(deployment: Deployment) -> list[str]:
    line = [deployment.settings.python, "-P", "-m", "scalable", "run", FILE, "--target", deployment.target]
    line += ["--sweep", deployment.sweep, "--holder", "$(HOLDER)"] if deployment.sweep is not None else []
    return line + (["--overlay", deployment.overlay] if deployment.overlay else [])
