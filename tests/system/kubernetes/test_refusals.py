"""What the cluster refuses reaches the caller in words that name the remedy, and nothing is left of the attempt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalable.cluster.base import LaunchRefused
from scalable.errors import ScalableError
from tests.helpers.kubernetes.helpers import SMALL, WITHIN_S, Namespace, Project, without
from tests.helpers.waiting import eventually


@pytest.mark.parametrize(
    ("verb", "resource"), [("create", "pods"), ("watch", "pods"), ("create", "secrets"), ("create", "configmaps")]
)
def test_a_right_that_lacks_is_named(kube: Namespace, project: Project, verb: str, resource: str) -> None:
    kube.allow(without(verb, resource))
    session = project.session(components={"demeter": SMALL})
    with pytest.raises(LaunchRefused, match=rf"may not {verb} {resource}.*Role"):
        session.start()
    (ended,) = project.journal("ended")
    assert (ended["status"], resource in ended["reason"]) == ("failed", True)
    eventually(lambda: kube.left() == [], lambda: f"{kube.left()} to be gone")


def test_a_quota_that_is_used_up_is_named_with_its_figures(kube: Namespace, project: Project) -> None:
    kube.create("ResourceQuota", "few", spec={"hard": {"pods": "2"}})  # the relay and one worker
    session = project.session(project.target(max_workers=3), components={"demeter": SMALL})
    with pytest.raises(LaunchRefused, match=r"the quota few is used up.*2 of 2 used"):
        session.start()
    eventually(lambda: kube.left() == [], lambda: f"{kube.left()} to be gone")


def test_a_worker_larger_than_the_quota_is_refused_for_good(kube: Namespace, project: Project) -> None:
    kube.create("ResourceQuota", "tiny", spec={"hard": {"limits.memory": "600Mi"}})
    session = project.session(components={"demeter": SMALL})
    with pytest.raises(LaunchRefused, match=r"the quota tiny is smaller than one worker.*limits\.memory"):
        session.start()


def test_an_image_of_workers_that_cannot_be_pulled_fails_the_work_with_the_registrys_words(
    kube: Namespace, project: Project
) -> None:
    components = {"demeter": {**SMALL, "image": "nowhere.invalid/scalable:1"}}
    with project.session(components=components) as client, pytest.raises(ScalableError, match="no such host"):
        client.submit(sum, [1, 2], tag="demeter").result(WITHIN_S)
    refused = project.journal("workers-refused")
    assert all("image cannot be pulled" in record["reason"] for record in refused), refused


def test_an_image_that_not_even_the_relay_can_have_fails_the_start(kube: Namespace, project: Project) -> None:
    session = project.session(project.target(image="nowhere.invalid/scalable:1"), components={"demeter": SMALL})
    with pytest.raises(LaunchRefused, match=r"image cannot be pulled.*no such host"):
        session.start()
    eventually(lambda: kube.left() == [], lambda: f"{kube.left()} to be gone")


def test_a_namespace_or_account_that_is_not_there_is_named(kube: Namespace, project: Project) -> None:
    asked: list[tuple[dict[str, str], str]] = [
        ({"namespace": "elsewhere"}, "may not create .* in the namespace elsewhere"),
        ({"worker_service_account": "nobody"}, "service account .*nobody.* does not exist"),
    ]
    for more, words in asked:
        with pytest.raises(LaunchRefused, match=words):
            project.session(project.target(**more), components={"demeter": SMALL}).start()


def test_pods_that_no_node_can_ever_take_wait_with_the_schedulers_reason(kube: Namespace, project: Project) -> None:
    session = project.session(components={"demeter": {**SMALL, "cpus": 99}})
    with session:
        told: Callable[[], set[str]] = lambda: {record["reason"] for record in project.journal("worker-pending")}  # noqa: E731
        eventually(lambda: any("Insufficient cpu" in reason for reason in told()), lambda: f"the reason in {told()}")
