"""What Google answers, as recorded, in the engine's terms."""

from __future__ import annotations

import pytest

from scalable.cluster.clouds.fleet import Ending
from scalable.cluster.gcp.api import instance_fate, instance_gone, instance_waits, operation_error
from scalable.engine.events import Loss


@pytest.mark.parametrize(
    ("code", "message", "words", "passing"),
    [
        (
            "ZONE_RESOURCE_POOL_EXHAUSTED",
            "The zone 'europe-west1-b' does not have enough resources available to fulfill the request.",
            "no room for this machine type",
            True,
        ),
        (
            "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
            "… '(resource type:compute)'.",
            "no room for this machine type",
            True,
        ),
        (
            "QUOTA_EXCEEDED",
            "Quota 'CPUS' exceeded.  Limit: 24.0 in region europe-west1.",
            "a quota of the project is used up: Quota 'CPUS'",
            True,
        ),
        ("RESOURCE_NOT_FOUND", "The resource 'projects/p/global/networks/lab' was not found", "does not exist", False),
        ("SOMETHING_NEW", "words", "Google refused it: words (SOMETHING_NEW)", False),
    ],
)
def test_an_operation_that_failed_says_why_and_whether_that_may_pass(
    code: str, message: str, words: str, passing: bool
) -> None:
    text, may_pass = operation_error({"errors": [{"code": code, "message": message}]})
    assert words in text
    assert code in text
    assert may_pass is passing


@pytest.mark.parametrize(
    ("operation", "end", "cause", "words"),
    [
        ("compute.instances.preempted", None, Loss.PREEMPTED, "spot capacity back"),
        ("compute.instances.preempted", Ending(0, False), Loss.PREEMPTED, "spot capacity back"),
        ("compute.instances.hostError", None, Loss.NODE_LOST, "host failed"),
        ("compute.instances.guestTerminate", Ending(137, True), Loss.OUT_OF_MEMORY, "more memory"),
        ("compute.instances.guestTerminate", Ending(72, False, "no licence"), Loss.CANNOT_START, "no licence"),
        ("compute.instances.guestTerminate", Ending(125, False, "cannot pull x:1"), Loss.CANNOT_START, "cannot pull"),
        ("compute.instances.guestTerminate", Ending(71, False, "cannot reach"), Loss.WORKER_LOST, "firewall rules"),
        ("compute.instances.guestTerminate", Ending(0, False), Loss.PREEMPTED, "left after notice"),
        ("compute.instances.guestTerminate", Ending(-9, False), Loss.WORKER_LOST, "exit code -9"),
        ("compute.instances.guestTerminate", None, Loss.WORKER_LOST, "switched itself off"),
        ("stop", None, Loss.PREEMPTED, "someone stopped it"),
        ("delete", None, Loss.PREEMPTED, "someone deleted it"),
        ("", None, Loss.WORKER_LOST, "no reason given"),
    ],
)
def test_an_instance_that_is_gone_says_why(operation: str, end: Ending | None, cause: Loss, words: str) -> None:
    found = instance_fate("scalable-1a2b-small-0", operation, end)
    assert found.cause is cause
    assert words in found.detail
    assert "scalable-1a2b-small-0" in found.detail


def test_an_instance_that_waits_says_for_what() -> None:
    assert "capacity" in instance_waits({"status": "PROVISIONING"})
    assert instance_waits({"status": "RUNNING"}) == ""
    assert instance_gone({"status": "TERMINATED"})
    assert not instance_gone({"status": "STAGING"})
