"""What ``admin deploy kubernetes`` renders, judged by a real API server: its schemas, its admission, its rights."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.helpers.deploy.rendering import MANIFEST, driver, objects, render
from tests.helpers.kubernetes.helpers import Namespace
from tests.tools.kube import KubeClient, KubeError


@pytest.fixture
def deployed(kube: Namespace) -> list[dict[str, Any]]:
    """All but the Job and the namespace, which is there, really made; each was taken in a dry run first."""
    things = objects(render(MANIFEST.replace("namespace: lab", f"namespace: {kube.name}"), prometheus="monitoring"))
    for thing in things:
        if thing["kind"] == "Namespace":
            thing["metadata"]["name"] += "-other"
        kube.admin.create(thing, dry_run=True)
        if thing["kind"] not in ("Namespace", "Job"):
            kube.admin.create(thing)
    return things


def driver_pod(kube: Namespace) -> dict[str, Any]:
    spec = driver(render(MANIFEST.replace("namespace: lab", f"namespace: {kube.name}")))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "driver", "namespace": kube.name}, "spec": spec}


def test_the_drivers_pod_is_admitted_to_a_restricted_namespace_with_its_quota_and_limits(
    kube: Namespace, deployed: list[dict[str, Any]]
) -> None:
    pod = driver_pod(kube)
    kube.admin.create(pod, dry_run=True)
    for change in ({"runAsNonRoot": False, "runAsUser": 0}, {"seccompProfile": {"type": "Unconfined"}}):
        loose = deepcopy(pod)
        loose["spec"]["securityContext"] |= change
        with pytest.raises(KubeError, match="violates PodSecurity"):
            kube.admin.create(loose, dry_run=True)


def test_a_container_larger_than_the_largest_profile_is_refused(
    kube: Namespace, deployed: list[dict[str, Any]]
) -> None:
    pod = driver_pod(kube)
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = "25Gi"
    with pytest.raises(KubeError, match="maximum memory usage per Container is 24Gi"):
        kube.admin.create(pod, dry_run=True)


def test_the_drivers_account_may_make_pods_and_read_no_secret_and_the_workers_nothing(
    kube: Namespace, deployed: list[dict[str, Any]]
) -> None:
    def may(account: str, verb: str, resource: str) -> bool:
        token = kube.admin.token_of(account, kube.name)
        client = KubeClient(kube.admin.kubeconfig(kube.kubeconfig, token, kube.name))
        attributes = {"namespace": kube.name, "verb": verb, "resource": resource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = client.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    for verb, resource in (("create", "pods"), ("create", "secrets"), ("delete", "configmaps"), ("list", "events")):
        assert may("scalable-driver", verb, resource)
        assert not may("lab-worker", verb, resource)
    for verb, resource in (("get", "secrets"), ("list", "secrets"), ("update", "pods"), ("create", "roles")):
        assert not may("scalable-driver", verb, resource)
