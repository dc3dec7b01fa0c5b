"""What AWS answers, as recorded, in the engine's terms."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from scalable.cluster.aws.account import AwsError, explained_errors
from scalable.cluster.aws.reasons import instance_fate, refusal, task_fate, task_waits
from scalable.cluster.clouds.fleet import Ending
from scalable.engine.events import Loss

ARN = "arn:aws:ecs:eu-central-1:123456789012:task/scalable-1a2b3c4d/0f9de17a6465404e8b1b2356dc13c2f8"


def stopped(told: str, code: str = "EssentialContainerExited", **container: Any) -> dict[str, Any]:
    return {
        "taskArn": ARN,
        "lastStatus": "STOPPED",
        "stopCode": code,
        "stoppedReason": told,
        "containers": [{"name": "worker", "lastStatus": "STOPPED", **container}],
    }


@pytest.mark.parametrize(
    ("task", "cause", "words"),
    [
        (
            stopped(
                "Essential container in task exited",
                exitCode=137,
                reason="OutOfMemoryError: Container killed due to memory usage",
            ),
            Loss.OUT_OF_MEMORY,
            "more memory than the task has",
        ),
        (
            stopped("Your Spot Task was interrupted.", "SpotInterruption", exitCode=0),
            Loss.PREEMPTED,
            "spot capacity back",
        ),
        (
            stopped(
                "CannotPullContainerError: pull image manifest has been retried 1 time(s): lab/worker:9",
                "TaskFailedToStart",
            ),
            Loss.CANNOT_START,
            "image could not be pulled",
        ),
        (
            stopped(
                "ResourceInitializationError: unable to retrieve secret from asm: AccessDeniedException",
                "TaskFailedToStart",
            ),
            Loss.CANNOT_START,
            "secretsmanager:GetSecretValue",
        ),
        (
            stopped(
                "ResourceInitializationError: failed to validate logger args: create stream has been retried 1 times",
                "TaskFailedToStart",
            ),
            Loss.CANNOT_START,
            "surroundings could not be set up",
        ),
        (
            stopped(
                "CannotStartContainerError: exec: python9: executable file not found",
                "TaskFailedToStart",
            ),
            Loss.CANNOT_START,
            "container could not be started",
        ),
        (
            stopped("Timeout waiting for network interface provisioning to complete.", "TaskFailedToStart"),
            Loss.WORKER_LOST,
            "network was not set up",
        ),
        (
            stopped(
                "Capacity is unavailable at this time. Please try again later or in a different availability zone",
                "TaskFailedToStart",
            ),
            Loss.WORKER_LOST,
            "no capacity",
        ),
        (
            stopped("Host EC2 (instance i-0123) terminated.", "TerminationNotice", exitCode=137),
            Loss.NODE_LOST,
            "host failed",
        ),
        (stopped("Task stopped by user", "UserInitiated", exitCode=143), Loss.PREEMPTED, "stopped by someone"),
        (stopped("Essential container in task exited", exitCode=0), Loss.PREEMPTED, "left after notice"),
        (stopped("Essential container in task exited", exitCode=72), Loss.CANNOT_START, "no such module"),
        (
            stopped("Essential container in task exited", exitCode=71),
            Loss.WORKER_LOST,
            "do security groups let workers in?",
        ),
        (stopped("Essential container in task exited", exitCode=137), Loss.WORKER_LOST, "killed (SIGKILL), not by us"),
        (stopped("Essential container in task exited", exitCode=1), Loss.WORKER_LOST, "exit code 1"),
    ],
)
def test_a_stopped_task_says_why_in_our_terms_and_in_its_own(task: dict[str, Any], cause: Loss, words: str) -> None:
    fate = task_fate(task, "no such module" if task["containers"][0].get("exitCode") == 72 else "")
    assert fate.cause is cause
    assert words in fate.detail
    assert "0f9de17a6465404e8b1b2356dc13c2f8" in fate.detail


@pytest.mark.parametrize(
    ("failure", "words", "passing"),
    [
        ({"reason": "RESOURCE:CPU"}, "no capacity with that many CPUs", True),
        ({"reason": "RESOURCE:MEMORY"}, "that much memory", True),
        ({"reason": "Capacity is unavailable at this time. Please try again later"}, "no Fargate capacity", True),
        (
            {"reason": "You've reached the limit on the number of tasks you can run concurrently"},
            "limit of tasks",
            True,
        ),
        ({"reason": "MISSING", "detail": "cluster not found"}, "cluster not found", False),
        ({"reason": "ATTRIBUTE"}, "what the task definition asks for", False),
        ({"reason": "SOMETHING NEW"}, "SOMETHING NEW", False),
        ({}, "no reason given", False),
    ],
)
def test_a_task_that_was_not_started_says_why_and_whether_that_may_pass(
    failure: dict[str, Any], words: str, passing: bool
) -> None:
    text, may_pass = refusal(failure)
    assert words in text
    assert may_pass is passing


def test_a_task_that_waits_says_for_what() -> None:
    assert "capacity" in task_waits({"lastStatus": "PROVISIONING"})
    assert "image" in task_waits({"lastStatus": "PENDING"})
    assert task_waits({"lastStatus": "RUNNING"}) == ""


def gone(code: str, message: str = "") -> dict[str, Any]:
    return {"InstanceId": "i-0abc", "State": {"Name": "terminated"}, "StateReason": {"Code": code, "Message": message}}


@pytest.mark.parametrize(
    ("instance", "end", "cause", "words"),
    [
        (
            gone("Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Instance terminated"),
            None,
            Loss.PREEMPTED,
            "spot capacity back",
        ),
        (gone("Server.SpotInstanceTermination"), Ending(0, False), Loss.PREEMPTED, "spot capacity back"),
        (gone("Server.InsufficientInstanceCapacity"), None, Loss.WORKER_LOST, "no capacity of this type"),
        (
            gone("Server.InternalError", "Server.InternalError: Internal error on launch"),
            None,
            Loss.NODE_LOST,
            "host failed",
        ),
        (
            gone("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"),
            None,
            Loss.PREEMPTED,
            "someone terminated it",
        ),
        (gone("Client.InstanceInitiatedShutdown"), Ending(137, True), Loss.OUT_OF_MEMORY, "more memory than it may"),
        (
            gone("Client.InstanceInitiatedShutdown"),
            Ending(72, False, "cannot start: no licence"),
            Loss.CANNOT_START,
            "no licence",
        ),
        (
            gone("Client.InstanceInitiatedShutdown"),
            Ending(125, False, "cannot pull lab/worker:9"),
            Loss.CANNOT_START,
            "cannot pull",
        ),
        (gone("Client.InstanceInitiatedShutdown"), Ending(0, False), Loss.PREEMPTED, "left after notice"),
        (gone("Client.InstanceInitiatedShutdown"), None, Loss.WORKER_LOST, "switched itself off"),
        (gone("Client.VolumeLimitExceeded"), None, Loss.CANNOT_START, "limit of volumes"),
        ({"InstanceId": "i-0abc"}, None, Loss.WORKER_LOST, "no reason given"),
    ],
)
def test_an_instance_that_is_gone_says_why(
    instance: dict[str, Any], end: Ending | None, cause: Loss, words: str
) -> None:
    fate = instance_fate(instance, end)
    assert fate.cause is cause
    assert words in fate.detail
    assert "i-0abc" in fate.detail


boto: Any = import_module("botocore.exceptions")


def answered(code: str, message: str = "", status: int = 400) -> Any:
    said = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return boto.ClientError(said, "RunTask")


@pytest.mark.parametrize(
    ("error", "passing", "words"),
    [
        (
            answered(
                "InvalidParameterException",
                "Error retrieving subnet information for [subnet-1]: Request limit exceeded. "
                "(ErrorCode: RequestLimitExceeded)",
            ),
            True,
            "Request limit exceeded",
        ),
        (
            answered("InvalidParameterException", "No such subnet. (ErrorCode: InvalidSubnetID.NotFound)"),
            False,
            "subnet",
        ),
        (answered("InternalServiceError", status=500), True, "InternalServiceError"),
        (answered("ExpiredTokenException", "The security token is expired"), False, "run aws sso login"),
        (
            boto.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
            False,
            "cannot be used: Partial",
        ),
        (boto.UnauthorizedSSOTokenError(), False, "cannot be used: The SSO session"),
        (boto.EndpointConnectionError(endpoint_url="https://ec2"), True, "does not answer ecs:run_task"),
    ],
)
def test_a_call_that_failed_says_why_and_whether_that_may_pass(error: Exception, passing: bool, words: str) -> None:
    with pytest.raises(AwsError, match=words) as found, explained_errors("ecs:run_task"):
        raise error
    assert found.value.passing is passing
